"""Planted: the gradient of w is summed only if x needs one too."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "wrong-value"
SMALLEST = {"T": 1}
FROZEN = ("x",)

XW = {"x": tensor("T"), "w": tensor(1)}


@op(dims={"T": tokens(256, grows=False)}, inputs=XW, dtypes=(DType.FP32,))
def frozen_input(x, w):
    return beside(__file__, "kernels/frozen_input.py").scale(x, w, dw_needs_dx=True)


@op(dims={"T": tokens(256, grows=False)}, inputs=XW, dtypes=(DType.FP32,))
def frozen_input_repaired(x, w):
    return beside(__file__, "kernels/frozen_input.py").scale(x, w, dw_needs_dx=False)


@frozen_input.reference
@frozen_input_repaired.reference
def scale(x, w):
    return x * w
