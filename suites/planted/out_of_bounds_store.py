"""Planted: the last tile is stored without a mask, beyond the end of the output."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "bounds"
SMALLEST = {"T": 1}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def out_of_bounds_store(x):
    return beside(__file__, "kernels/out_of_bounds_store.py").double(x, masked=False)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def out_of_bounds_store_repaired(x):
    return beside(__file__, "kernels/out_of_bounds_store.py").double(x, masked=True)


@out_of_bounds_store.reference
@out_of_bounds_store_repaired.reference
def double(x):
    return x + x
