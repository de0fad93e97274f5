"""Planted: rows are described as aligned, whatever their length."""

from harness.suite import Dim, DType, beside, op, tensor, tokens

ORACLE = "compiler-hint"
SMALLEST = {"T": 2, "D": 65}

X = {"x": tensor("T", "D", grad=False)}
DIMS = {"T": tokens(32, grows=False), "D": Dim(low=64, high=130)}


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def false_divisor(x):
    return beside(__file__, "kernels/false_hints.py").heads(x, head=64, hints=True)


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def false_divisor_repaired(x):
    return beside(__file__, "kernels/false_hints.py").heads(x, head=64, hints=False)


@false_divisor.reference
@false_divisor_repaired.reference
def heads(x):
    return 2 * x[:, :64]
