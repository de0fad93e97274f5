"""Kimi delta attention of flash-linear-attention: the delta rule with a forget gate for each channel of keys.

Values may have G times as many heads as queries and keys.  The gate is an input, or the kernel computes it:
`-exp(A) softplus(g + bias)`, or with a lower bound `bound * sigmoid(exp(A) (g + bias))`.
"""

from harness.suite import Dim, Draw, DType, beside, op, segments, tensor, tokens, width

LIBRARY = (("fla-core", "flash-linear-attention"),)
ENVIRONMENT = {"FLA_USE_TMA": ("1",)}
"""With tensor descriptors in `solve_tril`, on compute capability 9.0 and later."""
SIZES = {
    "B": Dim(low=1, high=4),
    "T": tokens(150, grows=False),
    "H": Dim(low=1, high=3),
    "G": Dim(low=1, high=3),
    "K": width(256),
    "V": width(256),
}
PACKED_SIZES = {
    "T": tokens(200, grows=False),
    "N": Dim(low=1, high=8),
    "H": Dim(low=1, high=3),
    "G": Dim(low=1, high=3),
    "K": width(128),
    "V": width(128),
}
SETTINGS = {"scale": (None, 0.7), "output_final_state": (False, True)}
NORMALISES = {"use_qk_l2norm_in_kernel": (False, True)}
BOUNDS = {"lower_bound": (None, -5.0)}


def sequences(batch="B", *, grad=True):
    """Queries, normalised keys, values, and the strength with which each is written."""
    return {
        "q": tensor(batch, "T", "H", "K", grad=grad),
        "k": tensor(batch, "T", "H", "K", draw=Draw.NORMALISED, grad=grad),
        "v": tensor(batch, "T", "H*G", "V", grad=grad),
        "beta": tensor(batch, "T", "H*G", draw=Draw.UNIT, grad=grad),
    }


def gates(batch="B", *, grad=True):
    """Logarithms of the forget gates, one per channel of keys."""
    return tensor(batch, "T", "H*G", "K", draw=Draw.LOG_UNIT, grad=grad)


def raw_gates(*, grad=True):
    """The inputs from which the kernel computes the gates."""
    return {
        "g": tensor("B", "T", "H*G", "K", grad=grad),
        "A_log": tensor("H*G", draw=Draw.LOG_UNIT, dtype=DType.FP32, grad=grad),
        "dt_bias": tensor("H*G*K", optional=True, dtype=DType.FP32, grad=grad),
    }


def state(batch="B", *, grad=True):
    """The initial state; the library asserts that it is float32."""
    return tensor(batch, "H*G", "K", "V", optional=True, dtype=DType.FP32, grad=grad)


def enough_tokens(at):
    """Every one of the N sequences has a token, so that there are N states."""
    return at["N"] <= at["T"]


def definition(q, k, v, g, beta, initial_state, cu_seqlens, scale, output_final_state, *, normalise=False):
    recurrences = beside(__file__, "definitions/_recurrences.py")
    if normalise:
        q, k = recurrences.normalised(q), recurrences.normalised(k)
    q, k = (recurrences.shared(x, v.shape[2]) for x in (recurrences.scaled(q, scale), k))
    rows = (q, k, v, beta.unsqueeze(-1), g)
    if cu_seqlens is None:
        o, last = recurrences.delta(*rows, initial_state)
    else:
        o, last = recurrences.packed(recurrences.delta, rows, initial_state, cu_seqlens)
    return o, last if output_final_state else None


def made_gates(g, A_log, dt_bias, lower_bound):
    recurrences = beside(__file__, "definitions/_recurrences.py")
    if dt_bias is not None:
        g = g + dt_bias.view(g.shape[2:])
    rate = A_log.exp().unsqueeze(-1)
    return -rate * recurrences.softplus(g) if lower_bound is None else lower_bound * (rate * g).sigmoid()


@op(
    requires=LIBRARY,
    environment=ENVIRONMENT,
    dims=SIZES,
    inputs={**sequences(), "g": gates(), "initial_state": state()},
    options={**SETTINGS, **NORMALISES},
    independent=("B",),
)
def chunk_kda(q, k, v, g, beta, initial_state, scale, output_final_state, use_qk_l2norm_in_kernel):
    from fla.ops.kda import chunk_kda as attend

    return attend(
        q,
        k,
        v,
        g,
        beta,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
    )


@chunk_kda.reference
def chunk_kda_reference(q, k, v, g, beta, initial_state, scale, output_final_state, use_qk_l2norm_in_kernel):
    return definition(
        q, k, v, g, beta, initial_state, None, scale, output_final_state, normalise=use_qk_l2norm_in_kernel
    )


@op(
    requires=LIBRARY,
    environment=ENVIRONMENT,
    dims=PACKED_SIZES,
    inputs={**sequences(1), "g": gates(1), "initial_state": state("N"), "cu_seqlens": segments("T", "N")},
    options=SETTINGS,
    where=enough_tokens,
    sequences="cu_seqlens",
)
def chunk_kda_varlen(q, k, v, g, beta, initial_state, cu_seqlens, scale, output_final_state):
    from fla.ops.kda import chunk_kda as attend

    return attend(
        q,
        k,
        v,
        g,
        beta,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
    )


@chunk_kda_varlen.reference
def chunk_kda_varlen_reference(q, k, v, g, beta, initial_state, cu_seqlens, scale, output_final_state):
    return definition(q, k, v, g, beta, initial_state, cu_seqlens, scale, output_final_state)


@op(
    requires=LIBRARY,
    environment=ENVIRONMENT,
    dims=SIZES,
    inputs={**sequences(), **raw_gates(), "initial_state": state()},
    options={**BOUNDS, "safe_gate": (False, True), "disable_recompute": (False, True)},
    where=lambda at: at["lower_bound"] is not None or not at["safe_gate"],
    independent=("B",),
)
def chunk_kda_with_gate(q, k, v, g, beta, A_log, dt_bias, initial_state, lower_bound, safe_gate, disable_recompute):
    from fla.ops.kda import chunk_kda as attend

    return attend(
        q,
        k,
        v,
        g,
        beta,
        initial_state=initial_state,
        output_final_state=True,
        use_gate_in_kernel=True,
        safe_gate=safe_gate,
        lower_bound=lower_bound,
        disable_recompute=disable_recompute,
        A_log=A_log,
        dt_bias=dt_bias,
    )


@chunk_kda_with_gate.reference
def chunk_kda_with_gate_reference(q, k, v, g, beta, A_log, dt_bias, initial_state, lower_bound):
    g = made_gates(g, A_log, dt_bias, lower_bound)
    return definition(q, k, v, g, beta, initial_state, None, None, True)  # noqa: FBT003 - with the final state


@op(
    requires=LIBRARY,
    dims=SIZES,
    inputs={**sequences(grad=False), "g": gates(grad=False), "initial_state": state(grad=False)},
    options={**SETTINGS, **NORMALISES},
    independent=("B",),
)
def fused_recurrent_kda(q, k, v, g, beta, initial_state, scale, output_final_state, use_qk_l2norm_in_kernel):
    from fla.ops.kda import fused_recurrent_kda as attend

    o, last = attend(
        q,
        k,
        v,
        g,
        beta,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
    )
    return o, last if output_final_state else None


@fused_recurrent_kda.reference
def fused_recurrent_kda_reference(q, k, v, g, beta, initial_state, scale, output_final_state, use_qk_l2norm_in_kernel):
    return definition(
        q, k, v, g, beta, initial_state, None, scale, output_final_state, normalise=use_qk_l2norm_in_kernel
    )


@op(
    requires=LIBRARY,
    dims=PACKED_SIZES,
    inputs={
        **sequences(1, grad=False),
        "g": gates(1, grad=False),
        "initial_state": state("N", grad=False),
        "cu_seqlens": segments("T", "N"),
    },
    options=SETTINGS,
    where=enough_tokens,
    sequences="cu_seqlens",
)
def fused_recurrent_kda_varlen(q, k, v, g, beta, initial_state, cu_seqlens, scale, output_final_state):
    from fla.ops.kda import fused_recurrent_kda as attend

    o, last = attend(
        q,
        k,
        v,
        g,
        beta,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
    )
    return o, last if output_final_state else None


@fused_recurrent_kda_varlen.reference
def fused_recurrent_kda_varlen_reference(q, k, v, g, beta, initial_state, cu_seqlens, scale, output_final_state):
    return definition(q, k, v, g, beta, initial_state, cu_seqlens, scale, output_final_state)


@op(
    requires=LIBRARY,
    dims=SIZES,
    inputs={**sequences(grad=False), **raw_gates(grad=False), "initial_state": state(grad=False)},
    options=BOUNDS,
    independent=("B",),
)
def fused_recurrent_kda_with_gate(q, k, v, g, beta, A_log, dt_bias, initial_state, lower_bound):
    from fla.ops.kda import fused_recurrent_kda as attend

    return attend(
        q,
        k,
        v,
        g,
        beta,
        A_log=A_log,
        dt_bias=dt_bias,
        initial_state=initial_state,
        output_final_state=True,
        use_gate_in_kernel=True,
        lower_bound=lower_bound,
    )


@fused_recurrent_kda_with_gate.reference
def fused_recurrent_kda_with_gate_reference(q, k, v, g, beta, A_log, dt_bias, initial_state, lower_bound):
    g = made_gates(g, A_log, dt_bias, lower_bound)
    return definition(q, k, v, g, beta, initial_state, None, None, True)  # noqa: FBT003 - with the final state
