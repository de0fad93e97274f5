"""Planted: programs wait at a grid-wide barrier, but not all of them can be resident at once."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "completes"
SMALLEST = {"T": 3009}
CASES = 120

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(4000, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def grid_barrier(x):
    return beside(__file__, "kernels/grid_barrier.py").centre(x, programs_resident=False)


@op(dims={"T": tokens(4000, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def grid_barrier_repaired(x):
    return beside(__file__, "kernels/grid_barrier.py").centre(x, programs_resident=True)


@grid_barrier.reference
@grid_barrier_repaired.reference
def centre(x):
    return x - x.mean(0, keepdim=True)
