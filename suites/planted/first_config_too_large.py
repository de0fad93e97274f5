"""Planted: the first config of an autotuner does not fit, which it takes if it measures nothing."""

from harness.suite import Dim, DType, beside, op, tensor, tokens

ORACLE = "resources"
SMALLEST = {"T": 1, "D": 16}

DIMS = {"T": tokens(128, grows=False), "D": Dim(low=16, high=128, choices=(16, 32, 128))}
XW = {"x": tensor("T", "D", grad=False), "w": tensor("D", "D", grad=False)}


@op(dims=DIMS, inputs=XW, dtypes=(DType.FP16,))
def first_config_too_large(x, w):
    kernels = beside(__file__, "kernels/tuned_tiles.py")
    return kernels.product(x, w, kernels.large_first)


@op(dims=DIMS, inputs=XW, dtypes=(DType.FP16,))
def first_config_too_large_repaired(x, w):
    kernels = beside(__file__, "kernels/tuned_tiles.py")
    return kernels.product(x, w, kernels.small_first)


@first_config_too_large.reference
@first_config_too_large_repaired.reference
def product(x, w):
    return x @ w
