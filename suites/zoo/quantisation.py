"""Zoo: quantisation of rows, whose results jump where a number lies between two steps."""

from harness.suite import Dim, Draw, beside, integers, op, tensor, tokens, width

KERNELS = "kernels/quantisation.py"
GRID = 2**31 - 1
"""The limit of programs along x, of which each row takes one."""
LEAST = 1e-10
"""The least absolute value that counts as a row's largest."""
ROWS = {"T": Dim(low=1, high=256, grows=True, largest=GRID), "D": width(512)}
X = {"x": tensor("T", "D", grad=False)}


@op(dims=ROWS, inputs=X)
def quantise_rows(x):
    return beside(__file__, KERNELS).quantise(x, LEAST)


@quantise_rows.reference
def quantise_rows_reference(x):
    import torch

    scale = x.abs().amax(-1).clamp(min=LEAST) / 127
    return (x / scale[:, None]).round().to(torch.int8), scale


@op(
    dims=ROWS,
    inputs={
        "q": integers("T", "D", low=-127, high=128, dtype="int32"),
        "scale": tensor("T", draw=Draw.POSITIVE, grad=False),
    },
)
def dequantise_rows(q, scale):
    import torch

    return beside(__file__, KERNELS).dequantise(q.to(torch.int8), scale)


@dequantise_rows.reference
def dequantise_rows_reference(q, scale):
    return q * scale[:, None]


@op(dims=ROWS, inputs={"x": tensor("T", "D"), "scale": tensor("T", draw=Draw.POSITIVE, grad=False)})
def fake_quantise(x, scale):
    return beside(__file__, KERNELS).fake_quantise(x, scale)


@fake_quantise.reference
def fake_quantise_reference(x, scale):
    steps = x / scale[:, None]
    inside = steps.detach().round().abs() <= 127
    quantised = steps.detach().round().clamp(-127, 127) * scale[:, None]
    return quantised + (x - x.detach()) * inside


@op(dims=ROWS, inputs=X, options={"kind": ("float8_e5m2", "float8_e4m3fn")})
def through_float8(x, kind):
    import torch

    return beside(__file__, KERNELS).through_float8(x, getattr(torch, kind), LEAST)


@through_float8.reference
def through_float8_reference(x, kind):
    import torch

    dtype = getattr(torch, kind)
    scale = x.abs().amax(-1, keepdim=True).clamp(min=LEAST) / torch.finfo(dtype).max
    return (x / scale).to(dtype).to(x.dtype) * scale


@op(
    dims={"M": tokens(128, grows=False), "N": width(64), "K": width(256)},
    inputs={
        "a": integers("M", "K", low=-127, high=128, dtype="int32"),
        "b": integers("K", "N", low=-127, high=128, dtype="int32"),
        "scale_a": tensor("M", draw=Draw.POSITIVE, grad=False),
        "scale_b": tensor("N", draw=Draw.POSITIVE, grad=False),
    },
)
def int8_matmul(a, b, scale_a, scale_b):
    import torch

    return beside(__file__, KERNELS).product(a.to(torch.int8), b.to(torch.int8), scale_a, scale_b)


@int8_matmul.reference
def int8_matmul_reference(a, b, scale_a, scale_b):
    return (a * scale_a[:, None]) @ (b * scale_b)
