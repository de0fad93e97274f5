"""Planted: the kernel tells the compiler that no program is the first one."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "compiler-hint"
SMALLEST = {"T": 1}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def false_assumption(x):
    return beside(__file__, "kernels/false_assumption.py").double(x, least=1)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def false_assumption_repaired(x):
    return beside(__file__, "kernels/false_assumption.py").double(x, least=0)


@false_assumption.reference
@false_assumption_repaired.reference
def double(x):
    return x + x
