"""Planted: a matrix product with tiles and stages for 227 KiB of shared memory, where this GPU has 99 KiB."""

from harness.suite import DType, beside, op, tensor, tokens, width

ORACLE = "resources"
SMALLEST = {"T": 1, "D": 1}
DEVICE = "rtx-pro-6000"

XW = {"x": tensor("T", "D", grad=False), "w": tensor("D", "D", grad=False)}


@op(dims={"T": tokens(128), "D": width(128)}, inputs=XW, dtypes=(DType.FP16,))
def too_much_shared_memory(x, w):
    return beside(__file__, "kernels/too_much_shared_memory.py").product(x, w, tile=128, stages=4)


@op(dims={"T": tokens(128), "D": width(128)}, inputs=XW, dtypes=(DType.FP16,))
def too_much_shared_memory_repaired(x, w):
    return beside(__file__, "kernels/too_much_shared_memory.py").product(x, w, tile=32, stages=2)


@too_much_shared_memory.reference
@too_much_shared_memory_repaired.reference
def product(x, w):
    return x @ w
