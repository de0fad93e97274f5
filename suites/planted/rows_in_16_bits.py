"""Planted: host code counts rows in 16 bits, so a long tensor seems to have a negative number of them."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "unwritten"
SMALLEST = {"T": 32_768}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256)}, inputs=X, dtypes=(DType.FP32,))
def rows_in_16_bits(x):
    return beside(__file__, "kernels/rows_in_16_bits.py").double(x, wide=False)


@op(dims={"T": tokens(256)}, inputs=X, dtypes=(DType.FP32,))
def rows_in_16_bits_repaired(x):
    return beside(__file__, "kernels/rows_in_16_bits.py").double(x, wide=True)


@rows_in_16_bits.reference
@rows_in_16_bits_repaired.reference
def double(x):
    return x + x
