"""Planted: rows, of which usual cases have few, lie along the grid's y axis, which CUDA limits to 65,535 programs."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "launch-limits"
SMALLEST = {"T": 65_536}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256)}, inputs=X, dtypes=(DType.FP32,))
def rows_along_y(x):
    return beside(__file__, "kernels/grid_too_large.py").double(x, along_y=True)


@op(dims={"T": tokens(256)}, inputs=X, dtypes=(DType.FP32,))
def rows_along_y_repaired(x):
    return beside(__file__, "kernels/grid_too_large.py").double(x, along_y=False)


@rows_along_y.reference
@rows_along_y_repaired.reference
def double(x):
    return x + x
