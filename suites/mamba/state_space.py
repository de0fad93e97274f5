"""The state space duality (SSD) of mamba-ssm: chunked scans, packed sequences, states, and one step of decoding.

The state of each head decays by `exp(dt * A)` and takes in `dt * B x`; the output reads it with C.
"""

from itertools import pairwise

from harness.suite import Dim, Draw, DType, groups, integers, op, segments, tensor, tokens

LIBRARY = {"requires": ("sources:mamba-ssm",), "stubs": {"mamba_ssm": "mamba_stubs.py"}}
SIZES = {
    "T": tokens(400, grows=False),
    "G": groups(1, 2),
    "R": groups(1, 2, 3),  # heads of a group
    "P": Dim(low=1, high=80),
    "N": Dim(low=1, high=80),
}
CHUNKS = (64, 128, 256)
SCANNED = {
    "x": tensor("B", "T", "G*R", "P"),
    "dt": tensor("B", "T", "G*R", draw=Draw.POSITIVE),
    "a": tensor("G*R", dtype=DType.FP32, draw=Draw.POSITIVE),
    "b": tensor("B", "T", "G", "N"),
    "c": tensor("B", "T", "G", "N"),
    "d": tensor("G*R", optional=True, dtype=DType.FP32),
    "z": tensor("B", "T", "G*R", "P", optional=True),
    "dt_bias": tensor("G*R", optional=True, dtype=DType.FP32),
}


def bias_is_legal(at):
    """Without softplus, a bias could make a step negative."""
    return at["dt_softplus"] or not at["dt_bias"]


@op(
    **LIBRARY,
    dims={"B": Dim(low=1, high=3), **SIZES},
    inputs={**SCANNED, "initial": tensor("B", "G*R", "P", "N", optional=True, dtype=DType.FP32)},
    options={"chunk_size": CHUNKS, "dt_softplus": (False, True), "returns_state": (False, True)},
    apart=("B",),
    where=bias_is_legal,
)
def chunk_scan_combined(x, dt, a, b, c, d, z, dt_bias, initial, chunk_size, dt_softplus, returns_state):
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined

    return mamba_chunk_scan_combined(
        x,
        dt,
        -a,
        b,
        c,
        chunk_size,
        D=d,
        z=z,
        dt_bias=dt_bias,
        initial_states=initial,
        dt_softplus=dt_softplus,
        return_final_states=returns_state,
    )


@chunk_scan_combined.reference
def chunk_scan_combined_reference(x, dt, a, b, c, d, z, dt_bias, initial, dt_softplus, returns_state):
    out, state = scan(x, steps(dt, dt_bias, dt_softplus), -a, b, c, d, z, initial)
    return (out, state) if returns_state else out


@op(
    **LIBRARY,
    # The function asserts that chunks are whole.
    dims={"B": Dim(low=1, high=3), "L": groups(1, 2, 3), "C": groups(*CHUNKS), **SIZES, "T": groups(1)},
    inputs={
        **SCANNED,
        "x": tensor("B", "L*C", "G*R", "P"),
        "dt": tensor("B", "L*C", "G*R", draw=Draw.POSITIVE),
        "b": tensor("B", "L*C", "G", "N"),
        "c": tensor("B", "L*C", "G", "N"),
        "z": tensor("B", "L*C", "G*R", "P", optional=True),
    },
    options={"dt_softplus": (False, True)},
    apart=("B",),
    where=bias_is_legal,
)
def chunk_scan_in_parts(x, dt, a, b, c, d, z, dt_bias, C, dt_softplus):
    """The same scan by the library's functions for its parts, which have backward kernels of their own."""
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan

    return mamba_chunk_scan(x, dt, -a, b, c, C, D=d, z=z, dt_bias=dt_bias, dt_softplus=dt_softplus)


@chunk_scan_in_parts.reference
def chunk_scan_in_parts_reference(x, dt, a, b, c, d, z, dt_bias, dt_softplus):
    return scan(x, steps(dt, dt_bias, dt_softplus), -a, b, c, d, z)[0]


@op(
    **LIBRARY,
    dims={"B": Dim(low=1, high=2), "S": groups(1, 2, 3, 5), **SIZES},
    inputs={**SCANNED, "cu_seqlens": segments("T", "S", dtype="int32")},
    options={"chunk_size": CHUNKS, "dt_softplus": (False, True)},
    apart=("B",),
    where=bias_is_legal,
)
def chunk_scan_packed(x, dt, a, b, c, d, z, dt_bias, cu_seqlens, chunk_size, dt_softplus):
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined

    lengths = cu_seqlens.diff()
    numbers = lengths.new_tensor(range(len(lengths))).repeat_interleave(lengths)
    return mamba_chunk_scan_combined(
        x,
        dt,
        -a,
        b,
        c,
        chunk_size,
        D=d,
        z=z,
        dt_bias=dt_bias,
        seq_idx=numbers.expand(x.shape[:2]).contiguous(),
        dt_softplus=dt_softplus,
    )


@chunk_scan_packed.reference
def chunk_scan_packed_reference(x, dt, a, b, c, d, z, dt_bias, cu_seqlens, dt_softplus):
    import torch

    given = steps(dt, dt_bias, dt_softplus)
    parts = [
        scan(*(one[:, at] for one in (x, given)), -a, b[:, at], c[:, at], d, None if z is None else z[:, at])[0]
        for at in sequences(cu_seqlens)
    ]
    return torch.cat(parts, 1)


@op(
    **LIBRARY,
    dims={"B": groups(1), "S": groups(1, 2, 3, 5), **SIZES},
    inputs={
        "x": tensor("B", "T", "G*R", "P", grad=False),
        "dt": tensor("B", "T", "G*R", grad=False, draw=Draw.POSITIVE),
        "a": tensor("G*R", grad=False, dtype=DType.FP32, draw=Draw.POSITIVE),
        "b": tensor("B", "T", "G", "N", grad=False),
        "c": tensor("B", "T", "G", "N", grad=False),
        "cu_seqlens": segments("T", "S", dtype="int32"),
    },
    options={"chunk_size": CHUNKS},
)
def states_of_packed_sequences(x, dt, a, b, c, cu_seqlens, chunk_size):
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined

    lengths = cu_seqlens.diff()
    numbers = lengths.new_tensor(range(len(lengths))).repeat_interleave(lengths)
    return mamba_chunk_scan_combined(
        x,
        dt,
        -a,
        b,
        c,
        chunk_size,
        seq_idx=numbers[None].contiguous(),
        cu_seqlens=cu_seqlens,
        return_varlen_states=True,
    )


@states_of_packed_sequences.reference
def states_of_packed_sequences_reference(x, dt, a, b, c, cu_seqlens):
    import torch

    parts = [scan(x[:, at], dt[:, at], -a, b[:, at], c[:, at]) for at in sequences(cu_seqlens)]
    return torch.cat([out for out, _ in parts], 1), torch.cat([state for _, state in parts])


@op(
    **LIBRARY,
    dims={
        "B": tokens(64, grows=False),
        "G": groups(1, 2),
        "R": groups(1, 2, 3),
        "P": Dim(low=1, high=128),
        "N": Dim(low=1, high=256),
    },
    inputs={
        "state": tensor("B", "G*R", "P", "N", grad=False),
        "x": tensor("B", "G*R", "P", grad=False),
        "dt": tensor("B", "G*R", "P", grad=False, draw=Draw.POSITIVE),
        "a": tensor("G*R", "P", "N", grad=False, draw=Draw.POSITIVE),
        "b": tensor("B", "G", "N", grad=False),
        "c": tensor("B", "G", "N", grad=False),
        "d": tensor("G*R", "P", grad=False, optional=True),
        "z": tensor("B", "G*R", "P", grad=False, optional=True),
        "dt_bias": tensor("G*R", "P", grad=False, optional=True),
    },
    options={"dt_softplus": (False, True)},
    apart=("B",),
    where=bias_is_legal,
)
def selective_state_update(state, x, dt, a, b, c, d, z, dt_bias, dt_softplus):
    from mamba_ssm.ops.triton.selective_state_update import selective_state_update as update

    state = state.clone()
    out = update(state, x, dt, -a, b, c, d, z, dt_bias, dt_softplus)
    return out, state


@selective_state_update.reference
def selective_state_update_reference(state, x, dt, a, b, c, d, z, dt_bias, dt_softplus, R):
    step = steps(dt, dt_bias, dt_softplus)
    b, c = (one.repeat_interleave(R, 1) for one in (b, c))
    state = state * (-step[..., None] * a).exp() + (step * x)[..., None] * b[:, :, None]
    out = (state * c[:, :, None]).sum(-1)
    return gated(out if d is None else out + d * x, z), state


def used_states(slots, B, S):
    import torch

    return torch.isin(torch.arange(B + S), slots)[:, None, None, None]


@op(
    **LIBRARY,
    dims={
        "B": Dim(low=1, high=40, grows=True, largest=65_535),
        "S": Dim(low=0, high=40, grows=True, largest=1 << 20),
        "G": groups(1, 2),
        "R": groups(1, 2, 3),
        "P": Dim(low=1, high=128),
        "N": Dim(low=1, high=256),
    },
    inputs={
        "states": tensor("B+S", "G*R", "P", "N", grad=False, defined=used_states),
        "slots": integers("B", high="B+S", distinct=True, ignore=-1, dtype="int32", contiguous=True),
        "x": tensor("B", "G*R", "P", grad=False),
        "dt": tensor("B", "G*R", "P", grad=False, draw=Draw.POSITIVE),
        "a": tensor("G*R", "P", "N", grad=False, draw=Draw.POSITIVE),
        "b": tensor("B", "G", "N", grad=False),
        "c": tensor("B", "G", "N", grad=False),
        "d": tensor("G*R", "P", grad=False),
        "z": tensor("B", "G*R", "P", grad=False, optional=True),
        "dt_bias": tensor("G*R", "P", grad=False),
    },
    options={"dt_softplus": (True,), "tied": (False, True)},
    defined=lambda slots, B, S: (None, used_states(slots, B, S)),
)
def states_updated_in_slots(states, slots, x, dt, a, b, c, d, z, dt_bias, dt_softplus, tied):
    """Requests have their states in slots of a cache; requests without a slot pad the batch."""
    from mamba_ssm.ops.triton.selective_state_update import selective_state_update as update

    decays = -a
    dt, decays, dt_bias = tied_to_heads(dt, decays, dt_bias) if tied else (dt, decays, dt_bias)
    states = states.clone()
    out = update(states, x, dt, decays, b, c, d, z, dt_bias, dt_softplus, state_batch_indices=slots)
    return out, states


@states_updated_in_slots.reference
def states_updated_in_slots_reference(states, slots, x, dt, a, b, c, d, z, dt_bias, dt_softplus, tied, R):
    import torch

    dt, a, dt_bias = tied_to_heads(dt, a, dt_bias) if tied else (dt, a, dt_bias)
    real, places = slots >= 0, slots.long().clamp(min=0)
    out, new = selective_state_update_reference(states[places], x, dt, a, b, c, d, z, dt_bias, dt_softplus, R)
    return torch.where(real[:, None, None], out, 0.0), states.index_put((places[real],), new[real])


def tied_to_heads(dt, a, dt_bias):
    """Return steps and decays that are those of a head, in memory too, as in Mamba 2."""
    return dt[..., :1].expand(dt.shape), a[:, :1, :1].expand(a.shape), dt_bias[:, :1].expand(dt_bias.shape)


@op(
    **LIBRARY,
    dims={
        "B": Dim(low=1, high=3),
        "T": Dim(low=1, high=400, varies=True, grows=True, largest=1 << 18),
        "H": Dim(low=1, high=64),
        "W": Dim(low=0, high=20_000, grows=True),
    },
    inputs={
        "projected": tensor("B", "T", "W+H", grad=False, contiguous=True, draw=Draw.POSITIVE),
        "a": tensor("H", grad=False, dtype=DType.FP32, draw=Draw.POSITIVE),
        "dt_bias": tensor("H", grad=False, optional=True, dtype=DType.FP32),
    },
    options={"chunk_size": CHUNKS, "dt_softplus": (False, True)},
    where=bias_is_legal,
)
def decay_of_chunks(projected, a, dt_bias, chunk_size, dt_softplus, W):
    """The steps are the last columns of a wide projection, as in the layer."""
    from mamba_ssm.ops.triton.ssd_chunk_state import _chunk_cumsum_fwd

    return _chunk_cumsum_fwd(projected[..., W:], -a, chunk_size, dt_bias, dt_softplus)


@decay_of_chunks.reference
def decay_of_chunks_reference(projected, a, dt_bias, chunk_size, dt_softplus, W):
    import torch

    dt = steps(projected[..., W:], dt_bias, dt_softplus).transpose(1, 2)
    dt = torch.nn.functional.pad(dt, (0, -dt.shape[-1] % chunk_size)).unflatten(-1, (-1, chunk_size))
    return (-a[:, None, None] * dt).cumsum(-1), dt


def steps(dt, bias, softplus):
    import torch

    given = dt if bias is None else dt + bias
    return torch.nn.functional.softplus(given) if softplus else given


def scan(x, dt, a, b, c, d=None, z=None, initial=None):
    """Return outputs and the last state: each output reads what all tokens so far have put in, as it has decayed."""
    import torch

    heads = x.shape[2] // b.shape[2]
    b, c = (one.repeat_interleave(heads, 2) for one in (b, c))
    decay = (dt * a).cumsum(1).transpose(1, 2)
    later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    since = (decay[..., :, None] - decay[..., None, :]).masked_fill(later, float("-inf")).exp()
    put = dt[..., None] * x
    weight = torch.einsum("bihn,bjhn->bhij", c, b) * since
    out = torch.einsum("bhij,bjhp->bihp", weight, put)
    state = torch.einsum("bhj,bjhn,bjhp->bhpn", since[:, :, -1], b, put)
    if initial is not None:
        kept = decay.exp()
        out = out + torch.einsum("bihn,bhpn,bhi->bihp", c, initial, kept)
        state = state + initial * kept[:, :, -1, None, None]
    return gated(out if d is None else out + d[:, None] * x, z), state


def gated(out, z):
    return out if z is None else out * z * z.sigmoid()


def sequences(cu_seqlens):
    return [slice(first, last) for first, last in pairwise(cu_seqlens.tolist())]
