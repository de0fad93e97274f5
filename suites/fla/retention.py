"""Linear attention of flash-linear-attention with one gate per head: simple GLA, and retention with fixed gates.

The gate of head i of retention is `1 - 2**(-5 - i)`.
"""

from harness.suite import Dim, Draw, DType, beside, op, segments, tensor, tokens, width

LIBRARY = (("fla-core", "flash-linear-attention"),)
SIZES = {
    "B": Dim(low=1, high=4),
    "T": tokens(200, grows=False),
    "H": Dim(low=1, high=4),
    "K": width(256),
    "V": width(256),
}
PACKED_SIZES = {
    "T": tokens(250, grows=False),
    "N": Dim(low=1, high=8),
    "H": Dim(low=1, high=3),
    "K": width(128),
    "V": width(128),
}
SETTINGS = {"scale": (None, 0.7), "output_final_state": (False, True)}
OWN_REFUSAL = ("NotImplementedError", "RuntimeError")
"""fla-core raises RuntimeError for gated backward passes on sm_90 with Triton 3.4 to 3.7.0, which miscompiles them."""


def sequences(batch="B"):
    """Queries, keys and values."""
    return {"q": tensor(batch, "T", "H", "K"), "k": tensor(batch, "T", "H", "K"), "v": tensor(batch, "T", "H", "V")}


def gates(batch="B"):
    """Logarithms of the forget gates, one per head."""
    return tensor(batch, "T", "H", draw=Draw.LOG_UNIT, optional=True)


def state(batch="B"):
    """The initial state."""
    return tensor(batch, "H", "K", "V", optional=True)


def enough_tokens(at):
    """Every one of the N sequences has a token, so that there are N states."""
    return at["N"] <= at["T"]


def even(at):
    """The library asserts this for 16-bit types, because of a compiler bug."""
    return at["K"] % 2 == 0 and at["V"] % 2 == 0 and at.get("N", 1) <= at["T"]


def definition(q, k, v, g, initial_state, cu_seqlens, scale, output_final_state):
    recurrences = beside(__file__, "definitions/_recurrences.py")
    if cu_seqlens is None:
        o, last = recurrences.parallel(recurrences.scaled(q, scale), k, v, g, initial_state)
    else:
        o, last = recurrences.packed(
            recurrences.parallel, (recurrences.scaled(q, scale), k, v, g), initial_state, cu_seqlens
        )
    return o, last if output_final_state else None


def fixed_gates(q):
    import torch

    heads = torch.arange(q.shape[2], dtype=torch.float64)
    return torch.log1p(-(2.0 ** (-5 - heads))).to(q.dtype).expand(q.shape[:3])


@op(
    requires=LIBRARY,
    dims=SIZES,
    inputs={**sequences(), "g": gates(), "initial_state": state()},
    options=SETTINGS,
    where=even,
    refuses=OWN_REFUSAL,
    independent=("B",),
)
def chunk_simple_gla(q, k, v, g, initial_state, scale, output_final_state):
    from fla.ops.simple_gla import chunk_simple_gla as attend

    return attend(q, k, v, g, scale=scale, initial_state=initial_state, output_final_state=output_final_state)


@chunk_simple_gla.reference
def chunk_simple_gla_reference(q, k, v, g, initial_state, scale, output_final_state):
    return definition(q, k, v, g, initial_state, None, scale, output_final_state)


@op(
    requires=LIBRARY,
    dims=SIZES,
    inputs={**sequences(), "g": gates(), "initial_state": state()},
    options=SETTINGS,
    dtypes=(DType.FP32,),
    refuses=OWN_REFUSAL,
    independent=("B",),
)
def chunk_simple_gla_of_any_width(q, k, v, g, initial_state, scale, output_final_state):
    from fla.ops.simple_gla import chunk_simple_gla as attend

    return attend(q, k, v, g, scale=scale, initial_state=initial_state, output_final_state=output_final_state)


@chunk_simple_gla_of_any_width.reference
def chunk_simple_gla_of_any_width_reference(q, k, v, g, initial_state, scale, output_final_state):
    return definition(q, k, v, g, initial_state, None, scale, output_final_state)


@op(
    requires=LIBRARY,
    dims=PACKED_SIZES,
    inputs={**sequences(1), "g": gates(1), "initial_state": state("N"), "cu_seqlens": segments("T", "N")},
    options=SETTINGS,
    where=even,
    refuses=OWN_REFUSAL,
    sequences="cu_seqlens",
)
def chunk_simple_gla_varlen(q, k, v, g, initial_state, cu_seqlens, scale, output_final_state):
    from fla.ops.simple_gla import chunk_simple_gla as attend

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


@chunk_simple_gla_varlen.reference
def chunk_simple_gla_varlen_reference(q, k, v, g, initial_state, cu_seqlens, scale, output_final_state):
    return definition(q, k, v, g, initial_state, cu_seqlens, scale, output_final_state)


@op(
    requires=LIBRARY,
    dims=SIZES,
    inputs={**sequences(), "g": gates(), "initial_state": state()},
    options={**SETTINGS, "reverse": (False, True)},
    independent=("B",),
)
def fused_recurrent_simple_gla(q, k, v, g, initial_state, scale, output_final_state, reverse):
    from fla.ops.simple_gla import fused_recurrent_simple_gla as attend

    return attend(
        q,
        k,
        v,
        g,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        reverse=reverse,
    )


@fused_recurrent_simple_gla.reference
def fused_recurrent_simple_gla_reference(q, k, v, g, initial_state, scale, output_final_state, reverse):
    q, k, v, g = (x.flip(1) if reverse and x is not None else x for x in (q, k, v, g))
    o, last = definition(q, k, v, g, initial_state, None, scale, output_final_state)
    return o.flip(1) if reverse else o, last


@op(
    requires=LIBRARY,
    dims=SIZES,
    inputs={**sequences(), "g": gates(), "initial_state": state()},
    options=SETTINGS,
    independent=("B",),
)
def fused_chunk_simple_gla(q, k, v, g, initial_state, scale, output_final_state):
    from fla.ops.simple_gla import fused_chunk_simple_gla as attend

    return attend(q, k, v, g, scale=scale, initial_state=initial_state, output_final_state=output_final_state)


@fused_chunk_simple_gla.reference
def fused_chunk_simple_gla_reference(q, k, v, g, initial_state, scale, output_final_state):
    return definition(q, k, v, g, initial_state, None, scale, output_final_state)


@op(
    requires=LIBRARY,
    dims=SIZES,
    inputs={**sequences(), "g": gates()},
    options={"scale": (None, 0.7)},
    independent=("B",),
)
def parallel_simple_gla(q, k, v, g, scale):
    from fla.ops.simple_gla import parallel_simple_gla as attend

    return attend(q, k, v, g, scale=scale)[0]


@parallel_simple_gla.reference
def parallel_simple_gla_reference(q, k, v, g, scale):
    return definition(q, k, v, g, None, None, scale, False)[0]  # noqa: FBT003 - without the final state


@op(
    requires=LIBRARY,
    dims=PACKED_SIZES,
    inputs={**sequences(1), "g": gates(1), "cu_seqlens": segments("T", "N")},
    options={"scale": (None, 0.7)},
    sequences="cu_seqlens",
)
def parallel_simple_gla_varlen(q, k, v, g, cu_seqlens, scale):
    from fla.ops.simple_gla import parallel_simple_gla as attend

    return attend(q, k, v, g, scale=scale, cu_seqlens=cu_seqlens)[0]


@parallel_simple_gla_varlen.reference
def parallel_simple_gla_varlen_reference(q, k, v, g, cu_seqlens, scale):
    return definition(q, k, v, g, None, cu_seqlens, scale, False)[0]  # noqa: FBT003 - without the final state


@op(
    requires=LIBRARY,
    dims=SIZES,
    inputs={**sequences(), "initial_state": state()},
    options=SETTINGS,
    where=even,
    independent=("B",),
)
def chunk_retention(q, k, v, initial_state, scale, output_final_state):
    from fla.ops.retention import chunk_retention as retain

    return retain(q, k, v, scale=scale, initial_state=initial_state, output_final_state=output_final_state)


@chunk_retention.reference
def chunk_retention_reference(q, k, v, initial_state, scale, output_final_state):
    return definition(q, k, v, fixed_gates(q), initial_state, None, scale, output_final_state)


@op(
    requires=LIBRARY,
    dims=PACKED_SIZES,
    inputs={**sequences(1), "initial_state": state("N"), "cu_seqlens": segments("T", "N")},
    options=SETTINGS,
    where=even,
    sequences="cu_seqlens",
)
def chunk_retention_varlen(q, k, v, initial_state, cu_seqlens, scale, output_final_state):
    from fla.ops.retention import chunk_retention as retain

    return retain(
        q,
        k,
        v,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
    )


@chunk_retention_varlen.reference
def chunk_retention_varlen_reference(q, k, v, initial_state, cu_seqlens, scale, output_final_state):
    return definition(q, k, v, fixed_gates(q), initial_state, cu_seqlens, scale, output_final_state)


@op(requires=LIBRARY, dims=SIZES, inputs=sequences(), options={"scale": (None, 0.7)}, independent=("B",))
def parallel_retention(q, k, v, scale):
    from fla.ops.retention import parallel_retention as retain

    return retain(q, k, v, scale=scale)[0]


@parallel_retention.reference
def parallel_retention_reference(q, k, v, scale):
    return definition(q, k, v, fixed_gates(q), None, None, scale, False)[0]  # noqa: FBT003 - without the final state


@op(
    requires=LIBRARY,
    dims=SIZES,
    inputs={**sequences(), "initial_state": state()},
    options={**SETTINGS, "reverse": (False, True)},
    independent=("B",),
)
def fused_recurrent_retention(q, k, v, initial_state, scale, output_final_state, reverse):
    from fla.ops.retention import fused_recurrent_retention as retain

    return retain(
        q, k, v, scale=scale, initial_state=initial_state, output_final_state=output_final_state, reverse=reverse
    )


@fused_recurrent_retention.reference
def fused_recurrent_retention_reference(q, k, v, initial_state, scale, output_final_state, reverse):
    q, k, v = (x.flip(1) if reverse else x for x in (q, k, v))
    o, last = definition(q, k, v, fixed_gates(q), initial_state, None, scale, output_final_state)
    return o.flip(1) if reverse else o, last


@op(
    requires=LIBRARY, dims=SIZES, inputs={**sequences(), "initial_state": state()}, options=SETTINGS, independent=("B",)
)
def fused_chunk_retention(q, k, v, initial_state, scale, output_final_state):
    from fla.ops.retention import fused_chunk_retention as retain

    return retain(q, k, v, scale=scale, initial_state=initial_state, output_final_state=output_final_state)


@fused_chunk_retention.reference
def fused_chunk_retention_reference(q, k, v, initial_state, scale, output_final_state):
    return definition(q, k, v, fixed_gates(q), initial_state, None, scale, output_final_state)
