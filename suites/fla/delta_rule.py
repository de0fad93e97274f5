"""The delta rule of flash-linear-attention, without gates: in chunks and step by step."""

from harness.suite import Dim, Draw, DType, beside, op, segments, tensor, tokens, width

LIBRARY = (("fla-core", "flash-linear-attention"),)
ENVIRONMENT = {"FLA_USE_TMA": ("1",)}
"""With tensor descriptors in `solve_tril`, on compute capability 9.0 and later."""
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
SETTINGS = {"scale": (None, 0.7), "output_final_state": (False, True), "use_qk_l2norm_in_kernel": (False, True)}
HALF = (DType.BF16, DType.FP16)
"""chunk_delta_rule asserts that its inputs are not float32."""


def sequences(batch="B"):
    """Queries, normalised keys, values, and the strength with which each is written."""
    return {
        "q": tensor(batch, "T", "H", "K"),
        "k": tensor(batch, "T", "H", "K", draw=Draw.NORMALISED),
        "v": tensor(batch, "T", "H", "V"),
        "beta": tensor(batch, "T", "H", draw=Draw.UNIT),
    }


def state(batch="B"):
    """The initial state."""
    return tensor(batch, "H", "K", "V", optional=True)


def enough_tokens(at):
    """Every one of the N sequences has a token, so that there are N states."""
    return at["N"] <= at["T"]


def definition(q, k, v, beta, initial_state, cu_seqlens, scale, output_final_state, use_qk_l2norm_in_kernel):
    recurrences = beside(__file__, "definitions/_recurrences.py")
    if use_qk_l2norm_in_kernel:
        q, k = recurrences.normalised(q), recurrences.normalised(k)
    beta = beta if beta.dim() == v.dim() else beta.unsqueeze(-1)
    rows = (recurrences.scaled(q, scale), k, v, beta, None)
    if cu_seqlens is None:
        o, last = recurrences.delta(*rows, initial_state)
    else:
        o, last = recurrences.packed(recurrences.delta, rows, initial_state, cu_seqlens)
    return o, last if output_final_state else None


@op(
    requires=LIBRARY,
    environment=ENVIRONMENT,
    dims=SIZES,
    inputs={**sequences(), "initial_state": state()},
    options=SETTINGS,
    dtypes=HALF,
    independent=("B",),
)
def chunk_delta_rule(q, k, v, beta, initial_state, scale, output_final_state, use_qk_l2norm_in_kernel):
    from fla.ops.delta_rule import chunk_delta_rule as rule

    return rule(
        q,
        k,
        v,
        beta,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
    )


@chunk_delta_rule.reference
def chunk_delta_rule_reference(q, k, v, beta, initial_state, scale, output_final_state, use_qk_l2norm_in_kernel):
    return definition(q, k, v, beta, initial_state, None, scale, output_final_state, use_qk_l2norm_in_kernel)


@op(
    requires=LIBRARY,
    environment=ENVIRONMENT,
    dims=PACKED_SIZES,
    inputs={**sequences(1), "initial_state": state("N"), "cu_seqlens": segments("T", "N")},
    options=SETTINGS,
    where=enough_tokens,
    dtypes=HALF,
    sequences="cu_seqlens",
)
def chunk_delta_rule_varlen(
    q, k, v, beta, initial_state, cu_seqlens, scale, output_final_state, use_qk_l2norm_in_kernel
):
    from fla.ops.delta_rule import chunk_delta_rule as rule

    return rule(
        q,
        k,
        v,
        beta,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
        cu_seqlens=cu_seqlens,
    )


@chunk_delta_rule_varlen.reference
def chunk_delta_rule_varlen_reference(
    q, k, v, beta, initial_state, cu_seqlens, scale, output_final_state, use_qk_l2norm_in_kernel
):
    return definition(q, k, v, beta, initial_state, cu_seqlens, scale, output_final_state, use_qk_l2norm_in_kernel)


@op(
    requires=LIBRARY,
    dims=SIZES,
    inputs={**sequences(), "initial_state": state()},
    options=SETTINGS,
    independent=("B",),
)
def fused_recurrent_delta_rule(q, k, v, beta, initial_state, scale, output_final_state, use_qk_l2norm_in_kernel):
    from fla.ops.delta_rule import fused_recurrent_delta_rule as rule

    return rule(q, k, v, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel)


@fused_recurrent_delta_rule.reference
def fused_recurrent_delta_rule_reference(
    q, k, v, beta, initial_state, scale, output_final_state, use_qk_l2norm_in_kernel
):
    return definition(q, k, v, beta, initial_state, None, scale, output_final_state, use_qk_l2norm_in_kernel)


@op(
    requires=LIBRARY,
    dims=SIZES,
    inputs={**sequences(), "beta": tensor("B", "T", "H", "V", draw=Draw.UNIT), "initial_state": state()},
    options=SETTINGS,
    independent=("B",),
)
def fused_recurrent_delta_rule_by_channel(
    q, k, v, beta, initial_state, scale, output_final_state, use_qk_l2norm_in_kernel
):
    from fla.ops.delta_rule import fused_recurrent_delta_rule as rule

    return rule(q, k, v, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel)


@fused_recurrent_delta_rule_by_channel.reference
def fused_recurrent_delta_rule_by_channel_reference(
    q, k, v, beta, initial_state, scale, output_final_state, use_qk_l2norm_in_kernel
):
    return definition(q, k, v, beta, initial_state, None, scale, output_final_state, use_qk_l2norm_in_kernel)


@op(
    requires=LIBRARY,
    dims=PACKED_SIZES,
    inputs={**sequences(1), "initial_state": state("N"), "cu_seqlens": segments("T", "N")},
    options=SETTINGS,
    where=enough_tokens,
    sequences="cu_seqlens",
)
def fused_recurrent_delta_rule_varlen(
    q, k, v, beta, initial_state, cu_seqlens, scale, output_final_state, use_qk_l2norm_in_kernel
):
    from fla.ops.delta_rule import fused_recurrent_delta_rule as rule

    return rule(q, k, v, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel, cu_seqlens)


@fused_recurrent_delta_rule_varlen.reference
def fused_recurrent_delta_rule_varlen_reference(
    q, k, v, beta, initial_state, cu_seqlens, scale, output_final_state, use_qk_l2norm_in_kernel
):
    return definition(q, k, v, beta, initial_state, cu_seqlens, scale, output_final_state, use_qk_l2norm_in_kernel)
