"""Planted: a mean over persistent programs that counts rows of programs without work."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "sm-invariance"
SMALLEST = {"T": 1}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def sm_dependent(x):
    return beside(__file__, "kernels/sm_dependent.py").mean(x, counts_padding=True)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def sm_dependent_repaired(x):
    return beside(__file__, "kernels/sm_dependent.py").mean(x, counts_padding=False)


@sm_dependent.reference
@sm_dependent_repaired.reference
def mean(x):
    return x.mean(0, keepdim=True)
