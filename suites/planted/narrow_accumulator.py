"""Planted: the sum of a row is kept in bfloat16, and returned in float32."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "precision"
SMALLEST = {"T": 1, "D": 1}

DIMS = {"T": tokens(64, grows=False), "D": tokens(256, grows=False)}
INPUTS = {"x": tensor("T", "D", grad=False), "w": tensor("D", grad=False)}


@op(dims=DIMS, inputs=INPUTS, dtypes=(DType.FP32,))
def narrow_accumulator(x, w):
    return beside(__file__, "kernels/scaled_sum.py").scaled_sum(x, w, narrow=True)


@op(dims=DIMS, inputs=INPUTS, dtypes=(DType.FP32,))
def narrow_accumulator_repaired(x, w):
    return beside(__file__, "kernels/scaled_sum.py").scaled_sum(x, w)


@narrow_accumulator.reference
@narrow_accumulator_repaired.reference
def row_sums(x, w):
    return (x * w).sum(-1)
