"""Planted: an allocator is set in forward, and backward needs it in autograd's thread."""

from harness.suite import Dim, DType, beside, op, tensor, tokens

ORACLE = "scratch-context"
SMALLEST = {"T": 1, "D": 16}

DIMS = {"T": tokens(128, grows=False), "D": Dim(low=16, high=32, choices=(16, 32))}
X = {"x": tensor("T", "D")}


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def allocator_of_forward(x):
    return beside(__file__, "kernels/scratch_buffers.py").differentiable(x, sets_in_backward=False)


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def allocator_of_forward_repaired(x):
    return beside(__file__, "kernels/scratch_buffers.py").differentiable(x, sets_in_backward=True)


@allocator_of_forward.reference
@allocator_of_forward_repaired.reference
def double(x):
    return x + x
