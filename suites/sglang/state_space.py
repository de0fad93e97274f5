"""Layers of SGLang that keep a state for each request: short convolutions, and the gated delta rule."""

from itertools import pairwise

from harness.suite import Dim, Draw, DType, groups, integers, op, segments, tensor

LIBRARY = {"requires": ("sglang",), "stubs": {"sglang": "sglang_stubs.py"}}
ABSENT = -1
"""The slot of a request that pads the batch."""
EPS = 1e-6


def of_present(bounds, slots, T, D):
    import torch

    lengths = bounds.diff()
    rows = (slots != ABSENT).repeat_interleave(lengths)
    rows = torch.nn.functional.pad(rows, (0, T - len(rows)))
    return rows[None].expand(D, T), None


@op(
    **LIBRARY,
    dims={
        "T": Dim(low=1, high=300, varies=True, grows=True, largest=300_000),
        "N": Dim(low=1, high=4),
        "D": Dim(low=1, high=300, grows=True, largest=16_384),
        "W": groups(2, 3, 4),
        "P": Dim(low=4, high=12, grows=True, largest=1 << 22),
    },
    inputs={
        "x": tensor("T", "D", grad=False, contiguous="rows"),
        "weight": tensor("D", "W", grad=False, contiguous=True),
        "bias": tensor("D", grad=False, optional=True, contiguous=True),
        "states": tensor("P", "W-1", "D", grad=False, contiguous="rows"),
        "bounds": segments("T", "N", dtype="int32", contiguous=True),
        "slots": integers("N", high="P", distinct=True, ignore=ABSENT, dtype="int32", contiguous=True),
        "begun": integers("N", high=2, dtype="bool", contiguous=True),
    },
    options={"activation": ("silu", None)},
    where=lambda at: at["N"] <= at["T"],
    defined=of_present,
)
def convolution(x, weight, bias, states, bounds, slots, begun, activation):
    """Each request begins with its state or with zeros, and leaves its last inputs as its state."""
    from sglang.kernels.ops.mamba.causal_conv1d_triton import causal_conv1d_fn

    states = states.clone().mT
    lengths = bounds.diff().tolist()
    y = causal_conv1d_fn(x.T, weight, bias, states, bounds, lengths, slots, begun, activation)
    return y, states


@convolution.reference
def convolution_reference(x, weight, bias, states, bounds, slots, begun, activation):
    import torch

    states, before = states.clone().mT, weight.shape[1] - 1
    outputs = []
    for n, (at, to) in enumerate(pairwise(bounds.tolist())):
        slot = int(slots[n])
        history = states[slot] * begun[n] if slot != ABSENT else x.new_zeros(x.shape[1], before)
        whole = torch.cat((history, x[at:to].T), 1)
        y = (whole.unfold(1, before + 1, 1) * weight[:, None]).sum(-1)
        y = y if bias is None else y + bias[:, None]
        outputs.append(y * y.sigmoid() if activation else y)
        if slot != ABSENT:
            states = states.index_put((torch.tensor(slot),), whole[:, -before:])
    outputs.append(x.new_zeros(x.shape[1], len(x) - int(bounds[-1])))
    return torch.cat(outputs, 1), states


@op(
    **LIBRARY,
    dims={
        "N": Dim(low=1, high=4),
        "W": groups(1, 2, 4),
        "H": groups(1, 2, 3),
        "R": groups(1, 2, 4),
        "K": Dim(low=1, high=128),
        "V": Dim(low=1, high=128),
        "P": Dim(low=4, high=12, grows=True, largest=1 << 22),
    },
    inputs={
        "q": tensor("N", "W", "H", "K", grad=False),
        "k": tensor("N", "W", "H", "K", grad=False, draw=Draw.NORMALISED),
        "v": tensor("N", "W", "H*R", "V", grad=False),
        "g": tensor("N", "W", "H*R", grad=False, dtype=DType.FP32, draw=Draw.LOG_UNIT),
        "beta": tensor("N", "W", "H*R", grad=False, draw=Draw.UNIT),
        "states": tensor("P", "H*R", "V", "K", grad=False, dtype=DType.FP32, contiguous=True),
        "slots": integers("N", high="P", distinct=True, dtype="int32", contiguous=True),
        "kept": tensor("P", "W", "H*R", "V", "K", grad=False, optional=True, dtype=DType.FP32, contiguous=True),
    },
    options={"normalise": (False, True), "verifies": (False, True)},
)
def steps_of_requests(q, k, v, g, beta, states, slots, kept, normalise, verifies, W):
    """A verification of drafts leaves the states as they are; the state after each draft can be kept."""
    import torch
    from sglang.kernels.ops.attention.fla.fused_recurrent import fused_recurrent_gated_delta_rule_update

    states = states.clone()
    more = {}
    if kept is not None:
        kept = kept.clone()
        rows = torch.arange(len(q), device=q.device, dtype=torch.int32)
        more = {"intermediate_states_buffer": kept, "intermediate_state_indices": rows, "cache_steps": W}
    output = fused_recurrent_gated_delta_rule_update(
        q,
        k,
        v,
        g,
        beta,
        initial_state_source=states,
        initial_state_indices=slots,
        use_qk_l2norm_in_kernel=normalise,
        disable_state_update=verifies,
        **more,
    )
    return output, states, kept


@steps_of_requests.reference
def steps_of_requests_reference(q, k, v, g, beta, states, slots, kept, normalise, verifies, W):
    import torch

    if normalise:
        q, k = (one / (one.square().sum(-1, keepdim=True) + EPS).sqrt() for one in (q, k))
    q, k = (one.repeat_interleave(v.shape[2] // q.shape[2], 2) for one in (q, k))
    slots, states = slots.long(), states.to(q.dtype)
    state, outputs, after = states[slots], [], []
    for at in range(W):
        state = state * g[:, at].to(q.dtype).exp()[..., None, None]
        change = beta[:, at, :, None] * (v[:, at] - torch.einsum("nhvk,nhk->nhv", state, k[:, at]))
        state = state + change[..., None] * k[:, at, :, None]
        outputs.append(torch.einsum("nhvk,nhk->nhv", state, q[:, at]) * q.shape[-1] ** -0.5)
        after.append(state)
    if not verifies:
        states = states.index_put((slots,), state)
    if kept is not None:
        kept = torch.cat((torch.stack(after, 1), kept[len(q) :].to(q.dtype)))
    return torch.stack(outputs, 1), states, kept
