"""Planted: programs advance by half a tile, so two programs store the same bytes to the same cells."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "write-overlap"
SMALLEST = {"T": 9}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def overlapping_store(x):
    return beside(__file__, "kernels/overlapping_store.py").double(x, rows_per_program=8)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def overlapping_store_repaired(x):
    return beside(__file__, "kernels/overlapping_store.py").double(x, rows_per_program=16)


@overlapping_store.reference
@overlapping_store_repaired.reference
def double(x):
    return x + x
