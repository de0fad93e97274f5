"""The norms and the gated unit of mamba-ssm: norms of groups with a gate, norms of sums, SwiGLU."""

from harness.suite import Dim, groups, op, tensor, width

LIBRARY = {"requires": ("sources:mamba-ssm",), "stubs": {"mamba_ssm": "mamba_stubs.py"}}
EPS = 1e-5
ROWS = Dim(low=1, high=2048, grows=True, largest=2**31 - 1)


@op(
    **LIBRARY,
    dims={"T": ROWS, "G": groups(1, 2, 3, 4), "D": width(2048)},
    inputs={
        "x": tensor("T", "G*D"),
        "weight": tensor("G*D"),
        "bias": tensor("G*D", optional=True),
        "z": tensor("T", "G*D", optional=True),
    },
    options={"norm_before_gate": (True, False), "is_rms_norm": (False, True)},
    # The library declares no limit of its grid's second axis, and one program normalises a group.
    where=lambda at: at["G"] * at["D"] <= 4096,
)
def gated_layer_norm(x, weight, bias, z, D, norm_before_gate, is_rms_norm):
    from mamba_ssm.ops.triton.layernorm_gated import layernorm_fn

    return layernorm_fn(
        x, weight, bias, z, EPS, group_size=D, norm_before_gate=norm_before_gate, is_rms_norm=is_rms_norm
    )


@gated_layer_norm.reference
def gated_layer_norm_reference(x, weight, bias, z, D, norm_before_gate, is_rms_norm):
    gate = 1 if z is None else z * z.sigmoid()
    rows = x if norm_before_gate else x * gate
    normed = over_deviation(rows.unflatten(-1, (-1, D)), is_rms_norm).flatten(-2) * weight
    normed = normed if bias is None else normed + bias
    return normed * gate if norm_before_gate else normed


@op(
    **LIBRARY,
    dims={"T": ROWS, "D": width(4096)},
    inputs={
        "x": tensor("T", "D"),
        "weight": tensor("D"),
        "bias": tensor("D", optional=True),
        "residual": tensor("T", "D", optional=True),
    },
    options={"prenorm": (False, True), "residual_in_fp32": (False, True), "is_rms_norm": (False, True)},
)
def layer_norm_of_sum(x, weight, bias, residual, prenorm, residual_in_fp32, is_rms_norm):
    from mamba_ssm.ops.triton.layer_norm import layer_norm_fn

    return layer_norm_fn(
        x,
        weight,
        bias,
        residual,
        eps=EPS,
        prenorm=prenorm,
        residual_in_fp32=residual_in_fp32,
        is_rms_norm=is_rms_norm,
    )


@layer_norm_of_sum.reference
def layer_norm_of_sum_reference(x, weight, bias, residual, prenorm, is_rms_norm):
    total = x if residual is None else x + residual
    normed = over_deviation(total, is_rms_norm) * weight
    normed = normed if bias is None else normed + bias
    return (normed, total) if prenorm else normed


@op(**LIBRARY, dims={"T": ROWS, "D": width(4096)}, inputs={"xy": tensor("T", "2*D")})
def swiglu(xy):
    from mamba_ssm.ops.triton.k_activations import swiglu as apply

    return apply(xy)


@swiglu.reference
def swiglu_reference(xy):
    x, y = xy.chunk(2, -1)
    return x * x.sigmoid() * y


def over_deviation(rows, is_rms_norm):
    centred = rows if is_rms_norm else rows - rows.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + EPS).sqrt()
