"""Planted: programs write to the output in the order in which they happen to arrive."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "order-invariance"
SMALLEST = {"T": 17}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def first_come(x):
    return beside(__file__, "kernels/first_come.py").double(x, by_ticket=False)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def first_come_repaired(x):
    return beside(__file__, "kernels/first_come.py").double(x, by_ticket=True)


@first_come.reference
@first_come_repaired.reference
def double(x):
    return x + x
