"""Planted: a kernel makes tensor descriptors, which need scratch memory on sm_90 and later, and no allocator is set."""

from harness.suite import Dim, DType, beside, op, tensor, tokens

ORACLE = "scratch-memory"
SMALLEST = {"T": 1, "D": 16}

DIMS = {"T": tokens(128, grows=False), "D": Dim(low=16, high=32, choices=(16, 32))}
X = {"x": tensor("T", "D", grad=False)}


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def no_allocator(x):
    return beside(__file__, "kernels/no_allocator.py").double(x)


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def no_allocator_repaired(x):
    return beside(__file__, "kernels/no_allocator.py").double_with_scratch(x)


@no_allocator.reference
@no_allocator_repaired.reference
def double(x):
    return x + x
