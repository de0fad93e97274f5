"""Planted: a norm without a definition divides by the deviation of one column, which is zero, without an epsilon."""

from harness.suite import DType, beside, op, tensor, tokens, width

ORACLE = "finite-results"
SMALLEST = {"T": 1, "D": 1}

DIMS = {"T": tokens(64, grows=False), "D": width(64)}
X = {"x": tensor("T", "D", grad=False)}


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def nan_of_one_column(x):
    return beside(__file__, "kernels/nan_of_one_column.py").norm(x, epsilon=0.0)


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def nan_of_one_column_repaired(x):
    return beside(__file__, "kernels/nan_of_one_column.py").norm(x, epsilon=1e-6)
