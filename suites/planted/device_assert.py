"""Planted: the kernel asserts a row length that the last row of the tensor does not have."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "device-assert"
SMALLEST = {"T": 1}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def device_assert(x):
    return beside(__file__, "kernels/device_assert.py").double(x, least=16)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def device_assert_repaired(x):
    return beside(__file__, "kernels/device_assert.py").double(x, least=1)


@device_assert.reference
@device_assert_repaired.reference
def double(x):
    return x + x
