"""Planted: a kernel stores to a workspace that is its scratch memory, too."""

from harness.suite import Dim, DType, beside, op, tensor, tokens

ORACLE = "scratch-store"
SMALLEST = {"T": 1, "D": 16}

DIMS = {"T": tokens(128, grows=False), "D": Dim(low=16, high=32, choices=(16, 32))}
X = {"x": tensor("T", "D", grad=False)}


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def stored_scratch(x):
    return beside(__file__, "kernels/scratch_buffers.py").with_count(x, shares=True)


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def stored_scratch_repaired(x):
    return beside(__file__, "kernels/scratch_buffers.py").with_count(x, shares=False)


@stored_scratch.reference
@stored_scratch_repaired.reference
def double(x):
    return x + x
