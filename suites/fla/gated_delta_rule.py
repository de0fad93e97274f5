"""The gated delta rule of flash-linear-attention: in chunks, step by step, and the WY form inside of chunks.

Values may have G times as many heads as queries and keys.
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
PACKED_SIZES = {**SIZES, "T": tokens(200, grows=False), "N": Dim(low=1, high=8), "K": width(128), "V": width(128)}
del PACKED_SIZES["B"]
SETTINGS = {"scale": (None, 0.7), "output_final_state": (False, True)}
NORMALISES = {"use_qk_l2norm_in_kernel": (False, True)}
OWN_REFUSAL = ("NotImplementedError", "RuntimeError")
"""fla-core raises RuntimeError for gated backward passes on sm_90 with Triton 3.4 to 3.7.0, which miscompiles them."""


def sequences(batch="B", *, grad=True):
    """Queries, normalised keys, values, and the strength with which each is written."""
    return {
        "q": tensor(batch, "T", "H", "K", grad=grad),
        "k": tensor(batch, "T", "H", "K", draw=Draw.NORMALISED, grad=grad),
        "v": tensor(batch, "T", "H*G", "V", grad=grad),
        "beta": tensor(batch, "T", "H*G", draw=Draw.UNIT, grad=grad),
    }


def gates(batch="B", *, optional=False, grad=True):
    """Logarithms of the forget gates, one per head."""
    return tensor(batch, "T", "H*G", draw=Draw.LOG_UNIT, optional=optional, grad=grad)


def state(batch="B", *, grad=True):
    """The initial state."""
    return tensor(batch, "H*G", "K", "V", optional=True, grad=grad)


def enough_tokens(at):
    """Every one of the N sequences has a token, so that there are N states."""
    return at["N"] <= at["T"]


def definition(q, k, v, g, beta, initial_state, cu_seqlens, scale, output_final_state, *, normalise=False):
    recurrences = beside(__file__, "definitions/_recurrences.py")
    if normalise:
        q, k = recurrences.normalised(q), recurrences.normalised(k)
    q, k = (recurrences.shared(x, v.shape[2]) for x in (recurrences.scaled(q, scale), k))
    rows = (q, k, v, beta.unsqueeze(-1), None if g is None else g.unsqueeze(-1))
    if cu_seqlens is None:
        o, last = recurrences.delta(*rows, initial_state)
    else:
        o, last = recurrences.packed(recurrences.delta, rows, initial_state, cu_seqlens)
    return o, last if output_final_state else None


@op(
    requires=LIBRARY,
    environment=ENVIRONMENT,
    dims=SIZES,
    inputs={**sequences(), "g": gates(), "initial_state": state()},
    options={**SETTINGS, **NORMALISES},
    refuses=OWN_REFUSAL,
    independent=("B",),
)
def chunk_gated_delta_rule(q, k, v, g, beta, initial_state, scale, output_final_state, use_qk_l2norm_in_kernel):
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule as rule

    return rule(
        q,
        k,
        v,
        g,
        beta,
        scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
    )


@chunk_gated_delta_rule.reference
def chunk_gated_delta_rule_reference(
    q, k, v, g, beta, initial_state, scale, output_final_state, use_qk_l2norm_in_kernel
):
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
    refuses=OWN_REFUSAL,
    sequences="cu_seqlens",
)
def chunk_gated_delta_rule_varlen(q, k, v, g, beta, initial_state, cu_seqlens, scale, output_final_state):
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule as rule

    return rule(
        q,
        k,
        v,
        g,
        beta,
        scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
    )


@chunk_gated_delta_rule_varlen.reference
def chunk_gated_delta_rule_varlen_reference(q, k, v, g, beta, initial_state, cu_seqlens, scale, output_final_state):
    return definition(q, k, v, g, beta, initial_state, cu_seqlens, scale, output_final_state)


@op(
    requires=LIBRARY,
    environment=ENVIRONMENT,
    dims=SIZES,
    inputs={
        **{name: given for name, given in sequences().items() if name != "beta"},
        "beta": tensor("B", "T", "H*G"),
        "g": tensor("B", "T", "H*G"),
        "A_log": tensor("H*G", draw=Draw.LOG_UNIT, dtype=DType.FP32),
        "dt_bias": tensor("H*G", optional=True, dtype=DType.FP32),
        "initial_state": state(),
    },
    options={"allow_neg_eigval": (False, True)},
    refuses=OWN_REFUSAL,
    independent=("B",),
)
def chunk_gated_delta_rule_with_gate(q, k, v, g, beta, A_log, dt_bias, initial_state, allow_neg_eigval):
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule as rule

    return rule(
        q,
        k,
        v,
        g,
        beta,
        initial_state=initial_state,
        output_final_state=True,
        use_beta_sigmoid_in_kernel=True,
        allow_neg_eigval=allow_neg_eigval,
        use_gate_in_kernel=True,
        A_log=A_log,
        dt_bias=dt_bias,
    )


@chunk_gated_delta_rule_with_gate.reference
def chunk_gated_delta_rule_with_gate_reference(q, k, v, g, beta, A_log, dt_bias, initial_state, allow_neg_eigval):
    recurrences = beside(__file__, "definitions/_recurrences.py")
    g = -A_log.exp() * recurrences.softplus(g if dt_bias is None else g + dt_bias)
    beta = beta.sigmoid() * (2 if allow_neg_eigval else 1)
    return definition(q, k, v, g, beta, initial_state, None, None, True)  # noqa: FBT003 - with the final state


@op(
    requires=LIBRARY,
    dims=SIZES,
    inputs={
        **sequences(grad=False),
        "g": gates(optional=True, grad=False),
        "initial_state": state(grad=False),
    },
    options={**SETTINGS, **NORMALISES},
    independent=("B",),
)
def fused_recurrent_gated_delta_rule(
    q, k, v, g, beta, initial_state, scale, output_final_state, use_qk_l2norm_in_kernel
):
    from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule as rule

    return rule(
        q,
        k,
        v,
        g,
        beta=beta,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
    )


@fused_recurrent_gated_delta_rule.reference
def fused_recurrent_gated_delta_rule_reference(
    q, k, v, g, beta, initial_state, scale, output_final_state, use_qk_l2norm_in_kernel
):
    return definition(
        q, k, v, g, beta, initial_state, None, scale, output_final_state, normalise=use_qk_l2norm_in_kernel
    )


@op(
    requires=LIBRARY,
    dims=PACKED_SIZES,
    inputs={
        **sequences(1, grad=False),
        "g": gates(1, optional=True, grad=False),
        "initial_state": state("N", grad=False),
        "cu_seqlens": segments("T", "N"),
    },
    options=SETTINGS,
    where=enough_tokens,
    sequences="cu_seqlens",
)
def fused_recurrent_gated_delta_rule_varlen(q, k, v, g, beta, initial_state, cu_seqlens, scale, output_final_state):
    from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule as rule

    return rule(
        q,
        k,
        v,
        g,
        beta=beta,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
    )


@fused_recurrent_gated_delta_rule_varlen.reference
def fused_recurrent_gated_delta_rule_varlen_reference(
    q, k, v, g, beta, initial_state, cu_seqlens, scale, output_final_state
):
    return definition(q, k, v, g, beta, initial_state, cu_seqlens, scale, output_final_state)


@op(
    requires=LIBRARY,
    environment=ENVIRONMENT,
    dims={**SIZES, "K": width(128), "V": width(128)},
    inputs={
        "k": tensor("B", "T", "H", "K", draw=Draw.NORMALISED, grad=False),
        "v": tensor("B", "T", "H", "V", grad=False),
        "beta": tensor("B", "T", "H", draw=Draw.UNIT, grad=False),
        "g": tensor("B", "T", "H", draw=Draw.LOG_UNIT, optional=True, grad=False, dtype=DType.FP32),
        "dw": tensor("B", "T", "H", "K", grad=False),
        "du": tensor("B", "T", "H", "V", grad=False),
    },
    where=lambda at: at["G"] == 1,
    independent=("B",),
)
def wy_representation(k, v, beta, g, dw, du):
    import math

    from fla.ops.common import chunk_scaled_dot_kkt as products
    from fla.ops.gated_delta_rule.wy_fast import prepare_wy_repr_bwd, recompute_w_u_fwd
    from fla.ops.utils.solve_tril import solve_tril

    # the library's own callers pass only contiguous inputs
    k, v, beta, g, dw, du = (None if x is None else x.contiguous() for x in (k, v, beta, g, dw, du))
    unit = math.log(2) if hasattr(products, "exp2") else 1  # releases before 0.5.1 use natural logarithms
    sums = None if g is None else cumulative(g) / unit
    A = solve_tril(products.chunk_scaled_dot_kkt_fwd(k=k, g=sums, beta=beta), output_dtype=k.dtype)
    w, u = recompute_w_u_fwd(k=k, v=v, beta=beta, A=A, g=sums)
    return (w, u, *prepare_wy_repr_bwd(k=k, v=v, beta=beta, A=A, dw=dw, du=du, g=sums))


def cumulative(g):
    """The sums of the gates from the start of each chunk."""
    import torch

    return torch.cat([chunk.cumsum(1) for chunk in g.split(64, 1)], 1)


@wy_representation.reference
def wy_representation_reference(k, v, beta, g, dw, du):
    import torch

    sums = None if g is None else cumulative(g)
    leaves = [x.detach().requires_grad_() for x in (k, v, beta, sums) if x is not None]
    with torch.enable_grad():
        w, u = wy_rows(*leaves)
        gradients = torch.autograd.grad((w, u), leaves, (dw.to(w.dtype), du.to(u.dtype)))
    return w.detach(), u.detach(), *gradients


def wy_rows(k, v, beta, sums=None):
    """The rows w and u from which a chunk updates the state: `(I + L)^-1 diag(beta) (exp(G) k, v)`.

    L holds `beta_t k_t . k_s exp(G_t - G_s)` for s < t.  The system is solved row by row.
    """
    import torch

    made = []
    for begin in range(0, k.shape[1], 64):
        keys, values, strengths = (x[:, begin : begin + 64].transpose(1, 2) for x in (k, v, beta.unsqueeze(-1)))
        lower = (strengths * keys) @ keys.transpose(2, 3)
        if sums is not None:
            gates = sums[:, begin : begin + 64].transpose(1, 2).unsqueeze(-1)
            lower = lower * (gates - gates.transpose(2, 3)).tril().exp()
            keys = keys * gates.exp()
        right = strengths * torch.cat([keys, values], -1)
        rows = [right[:, :, :1]]
        for t in range(1, right.shape[2]):
            rows.append(right[:, :, t : t + 1] - lower[:, :, t : t + 1, :t] @ torch.cat(rows, 2))
        made.append(torch.cat(rows, 2).transpose(1, 2))
    w, u = torch.cat(made, 1).split((k.shape[-1], v.shape[-1]), -1)
    return w, u
