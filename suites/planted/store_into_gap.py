"""Planted: rows are stored as if a strided output were contiguous, so they land in its gaps."""

from harness.suite import DType, beside, op, tensor, tokens, width

ORACLE = "bounds"
SMALLEST = {"T": 2, "D": 1}

X = {"x": tensor("T", "D", grad=False)}


@op(dims={"T": tokens(64, grows=False), "D": width(64)}, inputs=X, dtypes=(DType.FP32,))
def store_into_gap(x):
    return beside(__file__, "kernels/store_into_gap.py").double(x, minds_stride=False)


@op(dims={"T": tokens(64, grows=False), "D": width(64)}, inputs=X, dtypes=(DType.FP32,))
def store_into_gap_repaired(x):
    return beside(__file__, "kernels/store_into_gap.py").double(x, minds_stride=True)


@store_into_gap.reference
@store_into_gap_repaired.reference
def double(x):
    return x + x
