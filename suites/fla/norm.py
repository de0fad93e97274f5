"""The norms of flash-linear-attention: layer, RMS and group norm, with and without weight, bias and residual."""

from harness.suite import groups, op, tensor, tokens, width

LIBRARY = (("fla-core", "flash-linear-attention"),)
EPS = 1e-5
SIZES = {"T": tokens(2048, realistic=65_536), "D": width(1024, realistic=8_192)}

ROWS = {
    "x": tensor("T", "D"),
    "weight": tensor("D", optional=True),
    "bias": tensor("D", optional=True),
    "residual": tensor("T", "D", optional=True),
}
GROUPED_ROWS = {
    "x": tensor("T", "G*D"),
    "weight": tensor("G*D", optional=True),
    "bias": tensor("G*D", optional=True),
    "residual": tensor("T", "G*D", optional=True),
}


@op(requires=LIBRARY, dims=SIZES, inputs=ROWS, apart=("T",), independent=("T",))
def layer_norm(x, weight, bias, residual):
    from fla.modules import layernorm

    return layernorm.layer_norm(x, weight, bias, residual, eps=EPS)


@layer_norm.reference
def layer_norm_reference(x, weight, bias, residual):
    return plus(times(over_deviation(plus(x, residual)), weight), bias)


@op(requires=LIBRARY, dims=SIZES, inputs=ROWS, apart=("T",), independent=("T",))
def rms_norm(x, weight, bias, residual):
    from fla.modules import layernorm

    return layernorm.rms_norm(x, weight, bias, residual, eps=EPS)


@rms_norm.reference
def rms_norm_reference(x, weight, bias, residual):
    return plus(times(over_rms(plus(x, residual)), weight), bias)


@op(
    requires=LIBRARY,
    dims={"T": tokens(2048), "G": groups(1, 2, 3, 4, 8, 16), "D": width(1024)},
    inputs=GROUPED_ROWS,
    apart=("T",),
    independent=("T",),
)
def group_norm(x, weight, bias, residual, G):
    from fla.modules import layernorm

    return layernorm.group_norm(x, weight, bias, residual, eps=EPS, num_groups=G)


@group_norm.reference
def group_norm_reference(x, weight, bias, residual, G, D):
    normed = over_deviation(plus(x, residual).unflatten(-1, (G, D))).flatten(-2)
    return plus(times(normed, weight), bias)


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
