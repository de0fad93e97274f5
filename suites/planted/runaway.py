"""Planted: a loop's index never moves."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "completes"
SMALLEST = {"T": 1}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(64, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def runaway(x):
    return beside(__file__, "kernels/runaway.py").total(x, step=0)


@op(dims={"T": tokens(64, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def runaway_repaired(x):
    return beside(__file__, "kernels/runaway.py").total(x, step=1)


@runaway.reference
@runaway_repaired.reference
def total(x):
    return x.sum().reshape(1)
