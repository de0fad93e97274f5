"""Gated linear attention of flash-linear-attention: in chunks and step by step, over batches and packed sequences."""

from harness.suite import Dim, Draw, DType, beside, op, segments, tensor, tokens, width

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
LONG_SIZES = {**SIZES, "T": tokens(150, grows=False, realistic=8_192)}
LONG_PACKED_SIZES = {**PACKED_SIZES, "T": tokens(200, grows=False, realistic=8_192)}
MANY = {
    "B": Dim(low=1, high=70_000),
    "T": tokens(4, grows=False),
    "H": Dim(low=1, high=8),
    "K": width(4),
    "V": width(4),
}
SETTINGS = {"scale": (None, 0.7), "output_final_state": (False, True)}


def sequences(batch="B"):
    """Queries, keys and values."""
    return {"q": tensor(batch, "T", "H", "K"), "k": tensor(batch, "T", "H", "K"), "v": tensor(batch, "T", "H", "V")}


def gates(batch="B", channels="K", *, optional=False):
    """Logarithms of the forget gates, one per channel."""
    return tensor(batch, "T", "H", channels, draw=Draw.LOG_UNIT, optional=optional)


def state(batch="B", *extents, dtype=None):
    """The initial state, with the dtype that the library requires, if any."""
    return tensor(batch, "H", *(extents or ("K", "V")), optional=True, dtype=dtype)


def enough_tokens(at):
    """Every one of the N sequences has a token, so that there are N states."""
    return at["N"] <= at["T"]


def definitions():
    """The module of definitions."""
    return beside(__file__, "definitions/_recurrences.py")


@op(
    requires=LIBRARY,
    dims=LONG_SIZES,
    inputs={**sequences(), "g": gates(), "initial_state": state(dtype=DType.FP32)},
    options=SETTINGS,
    independent=("B",),
)
def chunk_gla(q, k, v, g, initial_state, scale, output_final_state):
    from fla.ops.gla import chunk_gla as attend

    return attend(q, k, v, g, scale=scale, initial_state=initial_state, output_final_state=output_final_state)


@chunk_gla.reference
def chunk_gla_reference(q, k, v, g, initial_state, scale, output_final_state):
    recurrences = definitions()
    o, last = recurrences.additive(recurrences.scaled(q, scale), k, v, g, initial_state)
    return o, last if output_final_state else None


@op(
    requires=LIBRARY,
    dims=LONG_SIZES,
    inputs={**sequences(), "g": gates(), "initial_state": state("B", "V", "K", dtype=DType.FP32)},
    options={"scale": (None, 0.7)},
    independent=("B",),
)
def chunk_gla_values_first(q, k, v, g, initial_state, scale):
    from fla.ops.gla import chunk_gla as attend

    return attend(q, k, v, g, scale=scale, initial_state=initial_state, output_final_state=True, state_v_first=True)


@chunk_gla_values_first.reference
def chunk_gla_values_first_reference(q, k, v, g, initial_state, scale):
    recurrences = definitions()
    start = None if initial_state is None else initial_state.transpose(2, 3)
    o, last = recurrences.additive(recurrences.scaled(q, scale), k, v, g, start)
    return o, last.transpose(2, 3)


@op(
    requires=LIBRARY,
    dims=LONG_PACKED_SIZES,
    inputs={
        **sequences(1),
        "g": gates(1),
        "initial_state": state("N", dtype=DType.FP32),
        "cu_seqlens": segments("T", "N"),
    },
    options=SETTINGS,
    where=enough_tokens,
    sequences="cu_seqlens",
)
def chunk_gla_varlen(q, k, v, g, initial_state, cu_seqlens, scale, output_final_state):
    from fla.ops.gla import chunk_gla as attend

    return attend(
        q,
        k,
        v,
        g,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
    )


@chunk_gla_varlen.reference
def chunk_gla_varlen_reference(q, k, v, g, initial_state, cu_seqlens, scale, output_final_state):
    recurrences = definitions()
    o, last = recurrences.packed(
        recurrences.additive, (recurrences.scaled(q, scale), k, v, g), initial_state, cu_seqlens
    )
    return o, last if output_final_state else None


@op(
    requires=LIBRARY,
    dims=SIZES,
    inputs={
        **sequences(),
        "gk": gates(optional=True),
        "gv": gates(channels="V", optional=True),
        "initial_state": state(),
    },
    options={**SETTINGS, "reverse": (False, True)},
    independent=("B",),
)
def fused_recurrent_gla(q, k, v, gk, gv, initial_state, scale, output_final_state, reverse):
    from fla.ops.gla import fused_recurrent_gla as attend

    return attend(q, k, v, gk, gv, scale, initial_state, output_final_state, reverse)


@fused_recurrent_gla.reference
def fused_recurrent_gla_reference(q, k, v, gk, gv, initial_state, scale, output_final_state, reverse):
    recurrences = definitions()
    q, k, v, gk, gv = (
        x.flip(1) if reverse and x is not None else x for x in (recurrences.scaled(q, scale), k, v, gk, gv)
    )
    o, last = recurrences.additive(q, k, v, gk, initial_state, value_decay=gv)
    return o.flip(1) if reverse else o, last if output_final_state else None


@op(
    requires=LIBRARY,
    dims=MANY,
    inputs={**sequences(), "gk": gates(optional=True), "initial_state": state()},
    options=SETTINGS,
    independent=("B",),
)
def fused_recurrent_gla_of_many_sequences(q, k, v, gk, initial_state, scale, output_final_state):
    from fla.ops.gla import fused_recurrent_gla as attend

    return attend(q, k, v, gk, scale=scale, initial_state=initial_state, output_final_state=output_final_state)


@fused_recurrent_gla_of_many_sequences.reference
def fused_recurrent_gla_of_many_sequences_reference(q, k, v, gk, initial_state, scale, output_final_state):
    recurrences = definitions()
    o, last = recurrences.additive(recurrences.scaled(q, scale), k, v, gk, initial_state)
    return o, last if output_final_state else None


@op(
    requires=LIBRARY,
    dims=PACKED_SIZES,
    inputs={
        **sequences(1),
        "gk": gates(1, optional=True),
        "initial_state": state("N"),
        "cu_seqlens": segments("T", "N"),
    },
    options=SETTINGS,
    where=enough_tokens,
    sequences="cu_seqlens",
)
def fused_recurrent_gla_varlen(q, k, v, gk, initial_state, cu_seqlens, scale, output_final_state):
    from fla.ops.gla import fused_recurrent_gla as attend

    return attend(
        q,
        k,
        v,
        gk,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
    )


@fused_recurrent_gla_varlen.reference
def fused_recurrent_gla_varlen_reference(q, k, v, gk, initial_state, cu_seqlens, scale, output_final_state):
    recurrences = definitions()
    o, last = recurrences.packed(
        recurrences.additive, (recurrences.scaled(q, scale), k, v, gk), initial_state, cu_seqlens
    )
    return o, last if output_final_state else None
