"""Planted: an allocator returns memory that begins 64 bytes behind a multiple of 128."""

from harness.suite import Dim, DType, beside, op, tensor, tokens

ORACLE = "scratch-alignment"
SMALLEST = {"T": 1, "D": 16}

DIMS = {"T": tokens(128, grows=False), "D": Dim(low=16, high=32, choices=(16, 32))}
X = {"x": tensor("T", "D", grad=False)}


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def misaligned_scratch(x):
    return beside(__file__, "kernels/scratch_buffers.py").with_offset(x, offset=64)


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def misaligned_scratch_repaired(x):
    return beside(__file__, "kernels/scratch_buffers.py").with_offset(x, offset=256)


@misaligned_scratch.reference
@misaligned_scratch_repaired.reference
def double(x):
    return x + x
