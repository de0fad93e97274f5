"""Planted: programs add to one cell by atomics whose scope is a single program."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "thread-race"
SMALLEST = {"T": 17}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def narrow_total(x):
    return beside(__file__, "kernels/narrow_total.py").total(x, scope="cta")


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def narrow_total_repaired(x):
    return beside(__file__, "kernels/narrow_total.py").total(x, scope="gpu")


@narrow_total.reference
@narrow_total_repaired.reference
def total(x):
    return x.sum(0, keepdim=True)
