"""Planted: an allocator returns the address of memory that it does not hold."""

from harness.suite import Dim, DType, beside, op, tensor, tokens

ORACLE = "scratch-lifetime"
SMALLEST = {"T": 1, "D": 16}

DIMS = {"T": tokens(128, grows=False), "D": Dim(low=16, high=32, choices=(16, 32))}
X = {"x": tensor("T", "D", grad=False)}


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def freed_scratch(x):
    return beside(__file__, "kernels/scratch_buffers.py").with_address(x, holds=False)


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def freed_scratch_repaired(x):
    return beside(__file__, "kernels/scratch_buffers.py").with_address(x, holds=True)


@freed_scratch.reference
@freed_scratch_repaired.reference
def double(x):
    return x + x
