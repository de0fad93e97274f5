"""Planted: a matrix product whose tiles and stages need 227 KiB of shared memory, where some GPUs have 99 KiB."""

from harness.suite import Dim, DType, beside, op, tensor, tokens

ORACLE = "resources"
SMALLEST = {"T": 1, "D": 16}

DIMS = {"T": tokens(128, grows=False), "D": Dim(low=16, high=128, choices=(16, 32, 128))}
XW = {"x": tensor("T", "D", grad=False), "w": tensor("D", "D", grad=False)}


@op(dims=DIMS, inputs=XW, dtypes=(DType.FP16,))
def too_much_shared_memory(x, w):
    return beside(__file__, "kernels/too_much_shared_memory.py").product(x, w, tile=128, stages=5)


@op(dims=DIMS, inputs=XW, dtypes=(DType.FP16,))
def too_much_shared_memory_repaired(x, w):
    return beside(__file__, "kernels/too_much_shared_memory.py").product(x, w, tile=32, stages=2)


@too_much_shared_memory.reference
@too_much_shared_memory_repaired.reference
def product(x, w):
    return x @ w
