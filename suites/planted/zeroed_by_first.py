"""Planted: the first program zeroes the sum to which all add atomically, so earlier additions are lost."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "write-overlap"
SMALLEST = {"T": 17}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def zeroed_by_first(x):
    return beside(__file__, "kernels/atomic_total.py").total(x, zeroed_by_host=False)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def zeroed_by_first_repaired(x):
    return beside(__file__, "kernels/atomic_total.py").total(x, zeroed_by_host=True)


@zeroed_by_first.reference
@zeroed_by_first_repaired.reference
def total(x):
    return x.sum(0, keepdim=True)
