"""Planted: a mask that ends anywhere is described as constant over eight lanes."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "compiler-hint"
SMALLEST = {"T": 1}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def false_constancy(x):
    return beside(__file__, "kernels/false_hints.py").double(x, hints=True)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def false_constancy_repaired(x):
    return beside(__file__, "kernels/false_hints.py").double(x, hints=False)


@false_constancy.reference
@false_constancy_repaired.reference
def double(x):
    return x + x
