"""Planted: a kernel waits for a flag that is never set."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "completes"
SMALLEST = {"T": 1}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(64, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def hang(x):
    return beside(__file__, "kernels/hang.py").wait_and_double(x, ready=False)


@op(dims={"T": tokens(64, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def hang_repaired(x):
    return beside(__file__, "kernels/hang.py").wait_and_double(x, ready=True)


@hang.reference
@hang_repaired.reference
def double(x):
    return x + x
