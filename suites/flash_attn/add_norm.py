"""The layer norm and RMS norm of flash-attn: sums of residuals, scales of rows, and two norms of one sum."""

from harness.suite import Dim, op, tensor, width

LIBRARY = {"requires": ("sources:flash-attn",), "stubs": {"flash_attn": "flash_attn_stubs.py"}}
EPS = 1e-6
ROWS = {"T": Dim(low=1, high=2048, grows=True, largest=2**31 - 1), "D": width(4096)}
FORM = {"prenorm": (False, True), "zero_centered_weight": (False, True), "is_rms_norm": (False, True)}


@op(
    **LIBRARY,
    dims=ROWS,
    inputs={
        "x": tensor("T", "D"),
        "weight": tensor("D"),
        "bias": tensor("D", optional=True),
        "residual": tensor("T", "D", optional=True),
    },
    options={**FORM, "residual_in_fp32": (False, True)},
)
def layer_norm_of_sum(x, weight, bias, residual, prenorm, zero_centered_weight, is_rms_norm, residual_in_fp32):
    from flash_attn.ops.triton.layer_norm import layer_norm_fn

    return layer_norm_fn(
        x,
        weight,
        bias,
        residual,
        eps=EPS,
        prenorm=prenorm,
        residual_in_fp32=residual_in_fp32,
        zero_centered_weight=zero_centered_weight,
        is_rms_norm=is_rms_norm,
    )


@layer_norm_of_sum.reference
def layer_norm_of_sum_reference(x, weight, bias, residual, prenorm, zero_centered_weight, is_rms_norm):
    total = x if residual is None else x + residual
    normed = norm(total, weight, bias, zero_centered_weight, is_rms_norm)
    return (normed, total) if prenorm else normed


@op(
    **LIBRARY,
    dims=ROWS,
    inputs={
        "x": tensor("T", "D"),
        "weight": tensor("D"),
        "bias": tensor("D", optional=True),
        "residual": tensor("T", "D", optional=True),
        "rowscale": tensor("T", grad=False),
    },
    options=FORM,
)
def layer_norm_of_scaled_rows(x, weight, bias, residual, rowscale, prenorm, zero_centered_weight, is_rms_norm):
    from flash_attn.ops.triton.layer_norm import layer_norm_fn

    return layer_norm_fn(
        x,
        weight,
        bias,
        residual,
        eps=EPS,
        rowscale=rowscale,
        prenorm=prenorm,
        zero_centered_weight=zero_centered_weight,
        is_rms_norm=is_rms_norm,
    )


@layer_norm_of_scaled_rows.reference
def layer_norm_of_scaled_rows_reference(
    x, weight, bias, residual, rowscale, prenorm, zero_centered_weight, is_rms_norm
):
    scaled = x * rowscale[:, None]
    return layer_norm_of_sum_reference(scaled, weight, bias, residual, prenorm, zero_centered_weight, is_rms_norm)


@op(
    **LIBRARY,
    dims=ROWS,
    inputs={
        "x": tensor("T", "D"),
        "x1": tensor("T", "D", optional=True),
        "weight": tensor("D"),
        "bias": tensor("D", optional=True),
        "weight1": tensor("D"),
        "bias1": tensor("D", optional=True),
        "residual": tensor("T", "D", optional=True),
    },
    options=FORM,
    # The library has both biases, or none.
    where=lambda at: at["bias"] == at["bias1"],
)
def parallel_layer_norms(x, x1, weight, bias, weight1, bias1, residual, prenorm, zero_centered_weight, is_rms_norm):
    """Norm one sum twice, with two weights."""
    from flash_attn.ops.triton.layer_norm import layer_norm_fn

    return layer_norm_fn(
        x,
        weight,
        bias,
        residual,
        x1,
        weight1,
        bias1,
        eps=EPS,
        prenorm=prenorm,
        zero_centered_weight=zero_centered_weight,
        is_rms_norm=is_rms_norm,
    )


@parallel_layer_norms.reference
def parallel_layer_norms_reference(
    x, x1, weight, bias, weight1, bias1, residual, prenorm, zero_centered_weight, is_rms_norm
):
    total = x if x1 is None else x + x1
    total = total if residual is None else total + residual
    normed = norm(total, weight, bias, zero_centered_weight, is_rms_norm)
    normed1 = norm(total, weight1, bias1, zero_centered_weight, is_rms_norm)
    return (normed, normed1, total) if prenorm else (normed, normed1)


@op(
    **LIBRARY,
    dims={"T": Dim(low=1, high=512), "D": width(512), "N": width(128)},
    inputs={
        "x": tensor("T", "D"),
        "norm_weight": tensor("D"),
        "norm_bias": tensor("D", optional=True),
        "linear_weight": tensor("N", "D"),
        "linear_bias": tensor("N", optional=True),
        "residual": tensor("T", "D", optional=True),
    },
    options={"prenorm": (False, True), "is_rms_norm": (False, True)},
)
def layer_norm_linear(x, norm_weight, norm_bias, linear_weight, linear_bias, residual, prenorm, is_rms_norm):
    from flash_attn.ops.triton.layer_norm import layer_norm_linear_fn

    return layer_norm_linear_fn(
        x,
        norm_weight,
        norm_bias,
        linear_weight,
        linear_bias,
        residual,
        eps=EPS,
        prenorm=prenorm,
        is_rms_norm=is_rms_norm,
    )


@layer_norm_linear.reference
def layer_norm_linear_reference(x, norm_weight, norm_bias, linear_weight, linear_bias, residual, prenorm, is_rms_norm):
    total = x if residual is None else x + residual
    product = norm(total, norm_weight, norm_bias, zero_centered_weight=False, is_rms_norm=is_rms_norm) @ linear_weight.T
    product = product if linear_bias is None else product + linear_bias
    return (product, total) if prenorm else product


def norm(rows, weight, bias, zero_centered_weight, is_rms_norm):
    centred = rows if is_rms_norm else rows - rows.mean(-1, keepdim=True)
    normed = centred / (centred.square().mean(-1, keepdim=True) + EPS).sqrt() * (weight + int(zero_centered_weight))
    return normed if bias is None else normed + bias
