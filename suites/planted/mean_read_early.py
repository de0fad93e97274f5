"""Planted: the first program reads the sum after it added its own part, before the others may have added theirs."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "order-dependence"
SMALLEST = {"T": 17}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def mean_read_early(x):
    return beside(__file__, "kernels/atomic_total.py").mean(x, by_last_to_arrive=False)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def mean_read_early_repaired(x):
    return beside(__file__, "kernels/atomic_total.py").mean(x, by_last_to_arrive=True)


@mean_read_early.reference
@mean_read_early_repaired.reference
def mean(x):
    return x.mean(0, keepdim=True)
