"""Planted: a kernel changes its input, which every benchmark of the autotuner does once more."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "tuning-invariance"
SMALLEST = {"T": 1}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def tuned_in_place(x):
    return beside(__file__, "kernels/tuned_in_place.py").plus_one(x.contiguous(), restores=False)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def tuned_in_place_repaired(x):
    return beside(__file__, "kernels/tuned_in_place.py").plus_one(x.contiguous(), restores=True)


@tuned_in_place.reference
@tuned_in_place_repaired.reference
def plus_one(x):
    return x + 1
