"""Zoo: norms.  Variances by two passes and by the mean of squares; rows of one element, whose gradients are zero."""

from harness.suite import Dim, beside, groups, op, tensor, tokens, width

KERNELS = "kernels/norms.py"
GRID = 2**31 - 1
"""The limit of programs along x, of which each row takes one."""
EPS = 1e-5
ROWS = {"T": Dim(low=1, high=512, grows=True, largest=GRID), "D": width(1024)}
AFFINE = {"x": tensor("T", "D"), "weight": tensor("D"), "bias": tensor("D")}


@op(dims=ROWS, inputs=AFFINE)
def layer_norm(x, weight, bias):
    return beside(__file__, KERNELS).layer_norm(x, weight, bias, EPS)


@layer_norm.reference
def layer_norm_by_two_passes(x, weight, bias):
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).square().mean(-1, keepdim=True)
    return (x - mean) / (variance + EPS).sqrt() * weight + bias


@op(dims=ROWS, inputs=AFFINE)
def layer_norm_by_squares(x, weight, bias):
    return beside(__file__, KERNELS).layer_norm(x, weight, bias, EPS)


@layer_norm_by_squares.reference
def layer_norm_by_mean_of_squares(x, weight, bias):
    mean = x.mean(-1, keepdim=True)
    variance = x.square().mean(-1, keepdim=True) - mean.square()
    return (x - mean) / (variance + EPS).sqrt() * weight + bias


@op(dims={"T": Dim(low=1, high=256, grows=True, largest=GRID), "D": width(2048)}, inputs=AFFINE)
def layer_norm_welford(x, weight, bias):
    return beside(__file__, KERNELS).layer_norm(x, weight, bias, EPS, welford=True)


layer_norm_welford.reference(layer_norm_by_two_passes)


@op(dims={"T": Dim(low=1, high=512, grows=True, largest=GRID), "D": Dim(low=1, high=2)}, inputs=AFFINE)
def layer_norm_narrow(x, weight, bias):
    return beside(__file__, KERNELS).layer_norm(x, weight, bias, EPS)


layer_norm_narrow.reference(layer_norm_by_two_passes)


@op(dims=ROWS, inputs={"x": tensor("T", "D"), "weight": tensor("D")})
def rms_norm(x, weight):
    return beside(__file__, KERNELS).rms_norm(x, weight, EPS)


@rms_norm.reference
def rms_norm_reference(x, weight):
    return x / (x.square().mean(-1, keepdim=True) + EPS).sqrt() * weight


@op(
    dims={"B": tokens(16, grows=False), "G": groups(1, 2, 4), "C": width(8), "L": width(256)},
    inputs={"x": tensor("B", "G*C", "L"), "weight": tensor("G*C"), "bias": tensor("G*C")},
)
def group_norm(x, weight, bias, G):
    return beside(__file__, KERNELS).group_norm(x, weight, bias, G, EPS)


@group_norm.reference
def group_norm_reference(x, weight, bias, G):
    rows = x.unflatten(1, (G, -1)).flatten(2)
    mean = rows.mean(-1, keepdim=True)
    variance = rows.var(-1, keepdim=True, unbiased=False)
    normed = ((rows - mean) / (variance + EPS).sqrt()).reshape(x.shape)
    return normed * weight[:, None] + bias[:, None]


@op(dims=ROWS, inputs={"x": tensor("T", "D")})
def l2_norm(x):
    return beside(__file__, KERNELS).l2_norm(x, EPS)


@l2_norm.reference
def l2_norm_reference(x):
    return x / (x.square().sum(-1, keepdim=True) + EPS).sqrt()
