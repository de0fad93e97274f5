"""Planted: the row's offset is computed in 32 bits, which overflows in a tensor of more than 2^31 elements."""

from harness.suite import Dim, DType, beside, op, tensor, tokens

ORACLE = "bounds"
SMALLEST = {"T": 2**21 + 1, "D": 1024}
CASES = 120
"""Few of them are oversized."""

DIMS = {"T": tokens(4), "D": Dim(low=1024, high=1024)}
X = {"x": tensor("T", "D", grad=False)}


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def index_overflow(x):
    return beside(__file__, "kernels/index_overflow.py").double(x, wide=False)


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def index_overflow_repaired(x):
    return beside(__file__, "kernels/index_overflow.py").double(x, wide=True)


@index_overflow.reference
@index_overflow_repaired.reference
def double(x):
    return x + x
