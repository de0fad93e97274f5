"""The recurrence of RWKV-7 in flash-linear-attention: in chunks and step by step, over batches and packed sequences.

A share a of the state at a normalised key kk is removed: `S_t = (diag(exp(w)) - (a kk) kk') S + k v'`.
"""

from harness.suite import Dim, Draw, beside, op, segments, tensor, tokens, width

LIBRARY = (("fla-core", "flash-linear-attention"),)
SIZES = {
    "B": Dim(low=1, high=4),
    "T": tokens(150, grows=False),
    "H": Dim(low=1, high=4),
    "K": width(256),
    "V": width(256),
}
PACKED_SIZES = {
    "T": tokens(200, grows=False),
    "N": Dim(low=1, high=8),
    "H": Dim(low=1, high=3),
    "K": width(128),
    "V": width(128),
}
SETTINGS = {"scale": (1.0, 0.7), "output_final_state": (False, True)}


def sequences(batch="B", states="B", *, grad=True):
    """Receptances, log decays, keys, values, normalised removal keys, shares and the initial state."""
    return {
        "r": tensor(batch, "T", "H", "K", grad=grad),
        "w": tensor(batch, "T", "H", "K", draw=Draw.LOG_UNIT, grad=grad),
        "k": tensor(batch, "T", "H", "K", grad=grad),
        "v": tensor(batch, "T", "H", "V", grad=grad),
        "kk": tensor(batch, "T", "H", "K", draw=Draw.NORMALISED, grad=grad),
        "a": tensor(batch, "T", "H", "K", draw=Draw.UNIT, grad=grad),
        "initial_state": tensor(states, "H", "K", "V", optional=True, grad=grad),
    }


def enough_tokens(at):
    """Every one of the N sequences has a token, so that there are N states."""
    return at["N"] <= at["T"]


def definition(r, w, k, v, kk, a, initial_state, cu_seqlens, scale, output_final_state):
    recurrences = beside(__file__, "definitions/_recurrences.py")
    rows = (recurrences.scaled(r, scale), k, v, -kk, kk * a, w)
    if cu_seqlens is None:
        o, last = recurrences.low_rank(*rows, initial_state)
    else:
        o, last = recurrences.packed(recurrences.low_rank, rows, initial_state, cu_seqlens)
    return o, last if output_final_state else None


@op(requires=LIBRARY, dims=SIZES, inputs=sequences(), options=SETTINGS)
def chunk_rwkv7(r, w, k, v, kk, a, initial_state, scale, output_final_state):
    from fla.ops.rwkv7 import chunk_rwkv7 as recur

    return recur(r, w, k, v, -kk, kk * a, scale, initial_state, output_final_state)


@chunk_rwkv7.reference
def chunk_rwkv7_reference(r, w, k, v, kk, a, initial_state, scale, output_final_state):
    return definition(r, w, k, v, kk, a, initial_state, None, scale, output_final_state)


@op(
    requires=LIBRARY,
    dims=PACKED_SIZES,
    inputs={**sequences(1, "N"), "cu_seqlens": segments("T", "N")},
    options=SETTINGS,
    where=enough_tokens,
)
def chunk_rwkv7_varlen(r, w, k, v, kk, a, initial_state, cu_seqlens, scale, output_final_state):
    from fla.ops.rwkv7 import chunk_rwkv7 as recur

    return recur(r, w, k, v, -kk, kk * a, scale, initial_state, output_final_state, cu_seqlens)


@chunk_rwkv7_varlen.reference
def chunk_rwkv7_varlen_reference(r, w, k, v, kk, a, initial_state, cu_seqlens, scale, output_final_state):
    return definition(r, w, k, v, kk, a, initial_state, cu_seqlens, scale, output_final_state)


@op(requires=LIBRARY, dims=SIZES, inputs=sequences(grad=False), options={**SETTINGS, "scale": (None, 0.7)})
def fused_recurrent_rwkv7(r, w, k, v, kk, a, initial_state, scale, output_final_state):
    from fla.ops.rwkv7 import fused_recurrent_rwkv7 as recur

    return recur(
        r,
        w,
        k,
        v,
        -kk,
        kk * a,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
    )


@fused_recurrent_rwkv7.reference
def fused_recurrent_rwkv7_reference(r, w, k, v, kk, a, initial_state, scale, output_final_state):
    return definition(r, w, k, v, kk, a, initial_state, None, scale, output_final_state)


@op(
    requires=LIBRARY,
    dims=SIZES,
    inputs=sequences(grad=False),
    options={**SETTINGS, "reverse": (False, True)},
)
def fused_mul_recurrent_rwkv7(r, w, k, v, kk, a, initial_state, scale, output_final_state, reverse):
    from fla.ops.rwkv7 import fused_mul_recurrent_rwkv7 as recur

    return recur(r, w, k, v, kk, a, scale, initial_state, output_final_state, reverse)


@fused_mul_recurrent_rwkv7.reference
def fused_mul_recurrent_rwkv7_reference(r, w, k, v, kk, a, initial_state, scale, output_final_state, reverse):
    r, w, k, v, kk, a = (x.flip(1) if reverse else x for x in (r, w, k, v, kk, a))
    o, last = definition(r, w, k, v, kk, a, initial_state, None, scale, output_final_state)
    return o.flip(1) if reverse else o, last


@op(
    requires=LIBRARY,
    dims=PACKED_SIZES,
    inputs={**sequences(1, "N", grad=False), "cu_seqlens": segments("T", "N")},
    options=SETTINGS,
    where=enough_tokens,
)
def fused_mul_recurrent_rwkv7_varlen(r, w, k, v, kk, a, initial_state, cu_seqlens, scale, output_final_state):
    from fla.ops.rwkv7 import fused_mul_recurrent_rwkv7 as recur

    return recur(r, w, k, v, kk, a, scale, initial_state, output_final_state, cu_seqlens=cu_seqlens)


@fused_mul_recurrent_rwkv7_varlen.reference
def fused_mul_recurrent_rwkv7_varlen_reference(r, w, k, v, kk, a, initial_state, cu_seqlens, scale, output_final_state):
    return definition(r, w, k, v, kk, a, initial_state, cu_seqlens, scale, output_final_state)
