"""Planted: two programs share one cell for their partial sums, so the later store wins."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "write-overlap"
SMALLEST = {"T": 17}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def contended_store(x):
    return beside(__file__, "kernels/contended_store.py").total(x, programs_per_cell=2)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def contended_store_repaired(x):
    return beside(__file__, "kernels/contended_store.py").total(x, programs_per_cell=1)


@contended_store.reference
@contended_store_repaired.reference
def total(x):
    return x.sum(0, keepdim=True)
