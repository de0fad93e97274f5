"""Planted: every config of an autotuner needs 227 KiB of shared memory, where some GPUs have 99 KiB."""

from harness.suite import Dim, DType, beside, op, tensor, tokens

ORACLE = "resources"
SMALLEST = {"T": 1, "D": 16}

DIMS = {"T": tokens(128, grows=False), "D": Dim(low=16, high=128, choices=(16, 32, 128))}
XW = {"x": tensor("T", "D", grad=False), "w": tensor("D", "D", grad=False)}


@op(dims=DIMS, inputs=XW, dtypes=(DType.FP16,))
def no_config_left(x, w):
    kernels = beside(__file__, "kernels/tuned_tiles.py")
    return kernels.product(x, w, kernels.none_fits)


@op(dims=DIMS, inputs=XW, dtypes=(DType.FP16,))
def no_config_left_repaired(x, w):
    kernels = beside(__file__, "kernels/tuned_tiles.py")
    return kernels.product(x, w, kernels.small_first)


@no_config_left.reference
@no_config_left_repaired.reference
def product(x, w):
    return x @ w
