"""Planted: y is padded to whole tiles, and the padding is not cut off."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "result-structure"
SMALLEST = {"T": 1}

X = {"x": tensor("T")}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def padded_rows(x):
    return beside(__file__, "kernels/padded_rows.py").double(x, cuts=False)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def padded_rows_repaired(x):
    return beside(__file__, "kernels/padded_rows.py").double(x, cuts=True)


@padded_rows.reference
@padded_rows_repaired.reference
def double(x):
    return x + x
