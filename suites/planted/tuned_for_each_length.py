"""Planted: the length is in the autotuner's key, so every new length tunes the same code again."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "autotuner-key"
SMALLEST = {"T": 1}
CASES = 100

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def tuned_for_each_length(x):
    return beside(__file__, "kernels/tuned_for_each_length.py").doubled(x.contiguous(), for_each=True)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def tuned_for_each_length_repaired(x):
    return beside(__file__, "kernels/tuned_for_each_length.py").doubled(x.contiguous(), for_each=False)


@tuned_for_each_length.reference
@tuned_for_each_length_repaired.reference
def doubled(x):
    return x + x
