"""Planted: the backward pass of x * sigmoid(x) leaves out the derivative of the sigmoid."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "wrong-value"
SMALLEST = {"T": 1}

X = {"x": tensor("T")}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def dropped_term(x):
    return beside(__file__, "kernels/dropped_term.py").silu(x, whole_gradient=False)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def dropped_term_repaired(x):
    return beside(__file__, "kernels/dropped_term.py").silu(x, whole_gradient=True)


@dropped_term.reference
@dropped_term_repaired.reference
def silu(x):
    return x * x.sigmoid()
