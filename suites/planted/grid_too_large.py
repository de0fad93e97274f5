"""Planted: rows lie along the grid's y axis, which CUDA limits to 65,535 programs."""

from harness.suite import Dim, DType, beside, op, tensor

ORACLE = "launch-limits"
SMALLEST = {"T": 65_536}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": Dim(low=65_500, high=66_000)}, inputs=X, dtypes=(DType.FP32,))
def grid_too_large(x):
    return beside(__file__, "kernels/grid_too_large.py").double(x, along_y=True)


@op(dims={"T": Dim(low=65_500, high=66_000)}, inputs=X, dtypes=(DType.FP32,))
def grid_too_large_repaired(x):
    return beside(__file__, "kernels/grid_too_large.py").double(x, along_y=False)


@grid_too_large.reference
@grid_too_large_repaired.reference
def double(x):
    return x + x
