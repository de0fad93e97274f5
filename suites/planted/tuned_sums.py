"""Planted: atomics add to a cell that the host zeroed, which every benchmark of the autotuner does once more."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "tuning-invariance"
SMALLEST = {"T": 1}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def tuned_sums(x):
    return beside(__file__, "kernels/tuned_sums.py").total(x.contiguous(), resets=False)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def tuned_sums_repaired(x):
    return beside(__file__, "kernels/tuned_sums.py").total(x.contiguous(), resets=True)


@tuned_sums.reference
@tuned_sums_repaired.reference
def total(x):
    return x.sum(0, keepdim=True)
