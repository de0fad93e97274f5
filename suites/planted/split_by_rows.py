"""Planted: the sum of a row is split into more parts where there are few rows."""

from harness.suite import DType, beside, op, tensor, tokens, width

ORACLE = "row-invariance"
CASES = 48
SMALLEST = {"T": 11, "D": 94}

DIMS = {"T": tokens(64, grows=False), "D": width(256)}
X = {"x": tensor("T", "D", grad=False)}


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,), independent=("T",))
def split_by_rows(x):
    return beside(__file__, "kernels/split_by_rows.py").sums(x, splits=1 if x.shape[0] > 8 else 4)


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,), independent=("T",))
def split_by_rows_repaired(x):
    return beside(__file__, "kernels/split_by_rows.py").sums(x, splits=4)


@split_by_rows.reference
@split_by_rows_repaired.reference
def sums(x):
    return x.sum(-1, keepdim=True)
