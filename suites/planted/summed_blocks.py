"""Planted: the grid is rounded down, so the sum of the last block is never stored, and torch adds it to the others."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "uninitialised-read"
SMALLEST = {"T": 17}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def summed_blocks(x, T):
    return beside(__file__, "kernels/summed_blocks.py").total(x, programs=max(1, T // 16))


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def summed_blocks_repaired(x, T):
    return beside(__file__, "kernels/summed_blocks.py").total(x, programs=-(-T // 16))


@summed_blocks.reference
@summed_blocks_repaired.reference
def total(x):
    return x.sum()
