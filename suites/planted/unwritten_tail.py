"""Planted: the grid is rounded down, so the last rows are never stored."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "unwritten"
SMALLEST = {"T": 17}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def unwritten_tail(x, T):
    return beside(__file__, "kernels/unwritten_tail.py").double(x, programs=max(1, T // 16))


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def unwritten_tail_repaired(x, T):
    return beside(__file__, "kernels/unwritten_tail.py").double(x, programs=-(-T // 16))


@unwritten_tail.reference
@unwritten_tail_repaired.reference
def double(x):
    return x + x
