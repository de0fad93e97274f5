"""The recurrence of RWKV-6 in flash-linear-attention: in chunks and step by step, over batches and packed sequences.

A query reads the past, and its own key with a bonus u.
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
SETTINGS = {"scale": (None, 0.7), "output_final_state": (False, True)}


def sequences(batch="B", states="B"):
    """Receptances, keys, values, log decays, the bonus and the initial state."""
    return {
        "r": tensor(batch, "T", "H", "K"),
        "k": tensor(batch, "T", "H", "K"),
        "v": tensor(batch, "T", "H", "V"),
        "w": tensor(batch, "T", "H", "K", draw=Draw.LOG_UNIT),
        "u": tensor("H", "K"),
        "initial_state": tensor(states, "H", "K", "V", optional=True),
    }


def enough_tokens(at):
    """Every one of the N sequences has a token, so that there are N states."""
    return at["N"] <= at["T"]


def definition(r, k, v, w, u, initial_state, cu_seqlens, scale, output_final_state):
    recurrences = beside(__file__, "definitions/_recurrences.py")
    rows = (recurrences.scaled(r, scale), k, v, w)

    def one(*given):
        return recurrences.additive(*given, bonus=u)

    o, last = (
        one(*rows, initial_state) if cu_seqlens is None else recurrences.packed(one, rows, initial_state, cu_seqlens)
    )
    return o, last if output_final_state else None


@op(requires=LIBRARY, dims=SIZES, inputs=sequences(), options=SETTINGS)
def chunk_rwkv6(r, k, v, w, u, initial_state, scale, output_final_state):
    from fla.ops.rwkv6 import chunk_rwkv6 as recur

    return recur(r, k, v, w, u, scale=scale, initial_state=initial_state, output_final_state=output_final_state)


@chunk_rwkv6.reference
def chunk_rwkv6_reference(r, k, v, w, u, initial_state, scale, output_final_state):
    return definition(r, k, v, w, u, initial_state, None, scale, output_final_state)


@op(
    requires=LIBRARY,
    dims=PACKED_SIZES,
    inputs={**sequences(1, "N"), "cu_seqlens": segments("T", "N")},
    options=SETTINGS,
    where=enough_tokens,
)
def chunk_rwkv6_varlen(r, k, v, w, u, initial_state, cu_seqlens, scale, output_final_state):
    from fla.ops.rwkv6 import chunk_rwkv6 as recur

    return recur(
        r,
        k,
        v,
        w,
        u,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
    )


@chunk_rwkv6_varlen.reference
def chunk_rwkv6_varlen_reference(r, k, v, w, u, initial_state, cu_seqlens, scale, output_final_state):
    return definition(r, k, v, w, u, initial_state, cu_seqlens, scale, output_final_state)


@op(requires=LIBRARY, dims=SIZES, inputs=sequences(), options={**SETTINGS, "reverse": (False, True)})
def fused_recurrent_rwkv6(r, k, v, w, u, initial_state, scale, output_final_state, reverse):
    from fla.ops.rwkv6 import fused_recurrent_rwkv6 as recur

    return recur(r, k, v, w, u, scale, initial_state, output_final_state, reverse)


@fused_recurrent_rwkv6.reference
def fused_recurrent_rwkv6_reference(r, k, v, w, u, initial_state, scale, output_final_state, reverse):
    r, k, v, w = (x.flip(1) if reverse else x for x in (r, k, v, w))
    o, last = definition(r, k, v, w, u, initial_state, None, scale, output_final_state)
    return o.flip(1) if reverse else o, last


@op(
    requires=LIBRARY,
    dims=PACKED_SIZES,
    inputs={**sequences(1, "N"), "cu_seqlens": segments("T", "N")},
    options=SETTINGS,
    where=enough_tokens,
)
def fused_recurrent_rwkv6_varlen(r, k, v, w, u, initial_state, cu_seqlens, scale, output_final_state):
    from fla.ops.rwkv6 import fused_recurrent_rwkv6 as recur

    return recur(r, k, v, w, u, scale, initial_state, output_final_state, cu_seqlens=cu_seqlens)


@fused_recurrent_rwkv6_varlen.reference
def fused_recurrent_rwkv6_varlen_reference(r, k, v, w, u, initial_state, cu_seqlens, scale, output_final_state):
    return definition(r, k, v, w, u, initial_state, cu_seqlens, scale, output_final_state)
