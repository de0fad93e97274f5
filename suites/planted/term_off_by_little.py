"""Planted: every product is 1e-4 of its size too large, which the rounding of bfloat16 hides."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "wrong-value"
SMALLEST = {"T": 1, "D": 1}
CASES = 80

DIMS = {"T": tokens(64, grows=False), "D": tokens(256, grows=False)}
INPUTS = {"x": tensor("T", "D", grad=False), "w": tensor("D", grad=False)}


@op(dims=DIMS, inputs=INPUTS, dtypes=(DType.BF16,))
def term_off_by_little(x, w):
    return beside(__file__, "kernels/scaled_sum.py").scaled_sum(x, w, 1.0001)


@op(dims=DIMS, inputs=INPUTS, dtypes=(DType.BF16,))
def term_off_by_little_repaired(x, w):
    return beside(__file__, "kernels/scaled_sum.py").scaled_sum(x, w)


@term_off_by_little.reference
@term_off_by_little_repaired.reference
def row_sums(x, w):
    return (x * w).sum(-1)
