"""Planted: a kernel halves numbers by their bits, which exact arithmetic cannot follow, and halves them twice."""

from harness.suite import Draw, DType, beside, op, tensor, tokens

ORACLE = "float64-values"
SMALLEST = {"T": 1}

X = {"x": tensor("T", grad=False, draw=Draw.UNIT)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def halved_bits(x):
    return beside(__file__, "kernels/halved_bits.py").halved(x + 1, 2)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def halved_bits_repaired(x):
    return beside(__file__, "kernels/halved_bits.py").halved(x + 1)


@halved_bits.reference
@halved_bits_repaired.reference
def half(x):
    return (x + 1) / 2
