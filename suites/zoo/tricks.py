"""Zoo: kernels whose method needs rounding, or the bits of floats.  Their results are those of the plain definition."""

from harness.suite import Dim, Draw, DType, beside, integers, op, tensor, tokens, width

KERNELS = "kernels/tricks.py"
GRID = 2**31 - 1
"""The limit of programs along x, of which each row takes one."""
ROWS = {"T": Dim(low=1, high=256, grows=True, largest=GRID), "D": width(512)}
X = {"x": tensor("T", "D", grad=False)}


@op(dims=ROWS, inputs={"x": tensor("T", "D")})
def softmax_by_powers_of_two(x):
    return beside(__file__, KERNELS).softmax(x)


@softmax_by_powers_of_two.reference
def softmax_by_quotient(x):
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


@op(dims=ROWS, inputs={"x": tensor("T", "D", draw=Draw.LOG_UNIT, grad=False)})
def exp_by_polynomial(x):
    return beside(__file__, KERNELS).exp(x)


@exp_by_polynomial.reference
def exp_reference(x):
    return x.exp()


@op(dims=ROWS, inputs={"x": tensor("T", "D", draw=Draw.POSITIVE, grad=False)})
def log1p_by_quotient(x):
    return beside(__file__, KERNELS).log1p(x)


@log1p_by_quotient.reference
def log1p_reference(x):
    return x.log1p()


@op(dims=ROWS, inputs=X, options={"step": (0.25, 1.0)})
def round_by_large_number(x, step):
    return beside(__file__, KERNELS).rounded(x, step)


@round_by_large_number.reference
def round_reference(x, step):
    return (x / step).round() * step


@op(dims={"T": Dim(low=1, high=128, grows=True, largest=GRID), "D": width(2048)}, inputs=X)
def compensated_sum(x):
    return beside(__file__, KERNELS).row_sums(x, compensated=True)


@op(dims={"T": Dim(low=1, high=128, grows=True, largest=GRID), "D": width(2048)}, inputs=X)
def sum_in_float64(x):
    return beside(__file__, KERNELS).row_sums(x, compensated=False)


@compensated_sum.reference
@sum_in_float64.reference
def sum_reference(x):
    return x.sum(-1)


@op(dims=ROWS, inputs=X)
def abs_max_by_bits(x):
    return beside(__file__, KERNELS).largest(x)


@abs_max_by_bits.reference
def abs_max_reference(x):
    return x.abs().amax().reshape(1)


@op(
    dims=ROWS,
    inputs={
        "packed": integers("T", "D", high=256, dtype="int32"),
        "scale": tensor("T", draw=Draw.POSITIVE, grad=False),
    },
)
def unpack_int4(packed, scale):
    import torch

    return beside(__file__, KERNELS).unpack(packed.to(torch.uint8), scale)


@unpack_int4.reference
def unpack_int4_reference(packed, scale):
    import torch

    pairs = torch.stack([packed % 16, packed // 16], dim=-1).flatten(1)
    return (pairs - 8) * scale[:, None]


@op(
    dims={"M": tokens(64, grows=False), "N": width(64), "K": width(128)},
    inputs={"a": tensor("M", "K", grad=False), "b": tensor("K", "N", grad=False)},
    dtypes=(DType.FP32,),
)
def matmul_by_bfloat16(a, b):
    return beside(__file__, KERNELS).split_product(a, b)


@matmul_by_bfloat16.reference
def matmul_reference(a, b):
    return a @ b
