"""Planted: lanes that wrap around at the end of x are described as contiguous."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "compiler-hint"
SMALLEST = {"T": 2}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def false_contiguity(x):
    return beside(__file__, "kernels/false_hints.py").repeat(x, hints=True)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def false_contiguity_repaired(x):
    return beside(__file__, "kernels/false_hints.py").repeat(x, hints=False)


@false_contiguity.reference
@false_contiguity_repaired.reference
def repeat(x):
    size = x.shape[0]
    return x.repeat(64)[: -(-size // 64) * 64]
