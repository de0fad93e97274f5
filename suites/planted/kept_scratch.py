"""Planted: an allocator returns the memory of the first launch for a launch of more programs."""

from harness.suite import Dim, DType, beside, op, tensor, tokens

ORACLE = "scratch-size"
SMALLEST = {"T": 17, "D": 16}

DIMS = {"T": tokens(128, grows=False), "D": Dim(low=16, high=32, choices=(16, 32))}
X = {"x": tensor("T", "D", grad=False)}


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def kept_scratch(x):
    return beside(__file__, "kernels/scratch_buffers.py").with_kept_memory(x, grows=False)


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def kept_scratch_repaired(x):
    return beside(__file__, "kernels/scratch_buffers.py").with_kept_memory(x, grows=True)


@kept_scratch.reference
@kept_scratch_repaired.reference
def double(x):
    return x + x
