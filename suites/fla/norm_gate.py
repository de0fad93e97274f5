"""Norms of flash-linear-attention with an output gate (swish or sigmoid), alone and before a linear layer."""

from harness.suite import op, tensor, tokens, width

LIBRARY = (("fla-core", "flash-linear-attention"),)
EPS = 1e-5

GATED_ROWS = {
    "x": tensor("T", "D"),
    "g": tensor("T", "D"),
    "weight": tensor("D", optional=True),
    "bias": tensor("D", optional=True),
    "residual": tensor("T", "D", optional=True),
}
LINEAR = {"linear_weight": tensor("O", "D"), "linear_bias": tensor("O", optional=True)}
PLAIN_ROWS = {name: given for name, given in GATED_ROWS.items() if name != "g"}
STREAM = {"prenorm": (False, True), "residual_in_fp32": (False, True)}
GATE = {"activation": ("swish", "silu", "sigmoid"), **STREAM}
SIZES = {"T": tokens(2048), "D": width(1024)}


@op(requires=LIBRARY, dims=SIZES, inputs=GATED_ROWS, options=GATE, independent=("T",))
def layer_norm_gated(x, g, weight, bias, residual, activation, prenorm, residual_in_fp32):
    from fla.modules import fused_norm_gate

    return fused_norm_gate.layer_norm_gated(
        x, g, weight, bias, activation, residual, prenorm=prenorm, residual_in_fp32=residual_in_fp32, eps=EPS
    )


@layer_norm_gated.reference
def layer_norm_gated_reference(x, g, weight, bias, residual, activation, prenorm):
    stream = plus(x, residual)
    y = plus(times(over_deviation(stream), weight), bias) * gate(g, activation)
    return (y, stream) if prenorm else y


@op(requires=LIBRARY, dims=SIZES, inputs=GATED_ROWS, options=GATE, independent=("T",))
def rms_norm_gated(x, g, weight, bias, residual, activation, prenorm, residual_in_fp32):
    from fla.modules import fused_norm_gate

    return fused_norm_gate.rms_norm_gated(
        x, g, weight, bias, activation, residual, prenorm=prenorm, residual_in_fp32=residual_in_fp32, eps=EPS
    )


@rms_norm_gated.reference
def rms_norm_gated_reference(x, g, weight, bias, residual, activation, prenorm):
    stream = plus(x, residual)
    y = plus(times(over_rms(stream), weight), bias) * gate(g, activation)
    return (y, stream) if prenorm else y


@op(
    requires=LIBRARY,
    dims={**SIZES, "O": width(256)},
    inputs={**GATED_ROWS, **LINEAR},
    options=STREAM,
    independent=("T",),
)
def layer_norm_swish_gate_linear(x, g, weight, bias, linear_weight, linear_bias, residual, prenorm, residual_in_fp32):
    from fla.modules import fused_norm_gate

    return fused_norm_gate.layer_norm_swish_gate_linear(
        x, g, weight, bias, linear_weight, linear_bias, residual, prenorm, residual_in_fp32, EPS
    )


@layer_norm_swish_gate_linear.reference
def layer_norm_swish_gate_linear_reference(x, g, weight, bias, linear_weight, linear_bias, residual, prenorm):
    stream = plus(x, residual)
    y = plus(times(over_deviation(stream), weight), bias) * gate(g, "swish")
    return linear(y, linear_weight, linear_bias, stream if prenorm else None)


@op(
    requires=LIBRARY,
    dims={**SIZES, "O": width(256)},
    inputs={**GATED_ROWS, **LINEAR},
    options=STREAM,
    independent=("T",),
)
def rms_norm_swish_gate_linear(x, g, weight, bias, linear_weight, linear_bias, residual, prenorm, residual_in_fp32):
    from fla.modules import fused_norm_gate

    return fused_norm_gate.rms_norm_swish_gate_linear(
        x, g, weight, bias, linear_weight, linear_bias, residual, prenorm, residual_in_fp32, EPS
    )


@rms_norm_swish_gate_linear.reference
def rms_norm_swish_gate_linear_reference(x, g, weight, bias, linear_weight, linear_bias, residual, prenorm):
    stream = plus(x, residual)
    y = plus(times(over_rms(stream), weight), bias) * gate(g, "swish")
    return linear(y, linear_weight, linear_bias, stream if prenorm else None)


@op(
    requires=LIBRARY,
    dims={**SIZES, "O": width(256)},
    inputs={**PLAIN_ROWS, **LINEAR},
    options=STREAM,
    independent=("T",),
)
def layer_norm_linear(x, weight, bias, linear_weight, linear_bias, residual, prenorm, residual_in_fp32):
    from fla.modules import layernorm

    return layernorm.layer_norm_linear(
        x, weight, bias, linear_weight, linear_bias, residual, EPS, prenorm, residual_in_fp32
    )


@layer_norm_linear.reference
def layer_norm_linear_reference(x, weight, bias, linear_weight, linear_bias, residual, prenorm):
    stream = plus(x, residual)
    y = plus(times(over_deviation(stream), weight), bias)
    return linear(y, linear_weight, linear_bias, stream if prenorm else None)


@op(
    requires=LIBRARY,
    dims={**SIZES, "O": width(256)},
    inputs={**PLAIN_ROWS, **LINEAR},
    options=STREAM,
    independent=("T",),
)
def rms_norm_linear(x, weight, bias, linear_weight, linear_bias, residual, prenorm, residual_in_fp32):
    from fla.modules import layernorm

    return layernorm.rms_norm_linear(
        x, weight, bias, linear_weight, linear_bias, residual, EPS, prenorm, residual_in_fp32
    )


@rms_norm_linear.reference
def rms_norm_linear_reference(x, weight, bias, linear_weight, linear_bias, residual, prenorm):
    stream = plus(x, residual)
    y = plus(times(over_rms(stream), weight), bias)
    return linear(y, linear_weight, linear_bias, stream if prenorm else None)


def gate(g, activation):
    """The factor of an output gate, from its logits."""
    return g.sigmoid() if activation == "sigmoid" else g * g.sigmoid()


def linear(rows, weight, bias, stream):
    """Apply the linear layer; return the residual stream too if it is requested."""
    out = plus(rows @ weight.T, bias)
    return out if stream is None else (out, stream)


def over_rms(rows):
    """Divide each row by its root mean square, in elementary operations, so that the harness sees every rounding."""
    return rows / (rows.square().mean(-1, keepdim=True) + EPS).sqrt()


def over_deviation(rows):
    """Subtract the mean of each row and divide by its standard deviation."""
    return over_rms(rows - rows.mean(-1, keepdim=True))


def plus(value, other):
    """Add `other`, unless it is None."""
    return value if other is None else value + other


def times(value, other):
    """Multiply by `other`, unless it is None."""
    return value if other is None else value * other
