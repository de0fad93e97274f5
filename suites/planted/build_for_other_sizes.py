"""Planted: every x goes through a build that was compiled for 256 elements."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "compiler-hint"
SMALLEST = {"T": 1}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def build_for_other_sizes(x):
    return beside(__file__, "kernels/build_for_other_sizes.py").double(x, assumed=256)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def build_for_other_sizes_repaired(x):
    return beside(__file__, "kernels/build_for_other_sizes.py").double(x, assumed=0)


@build_for_other_sizes.reference
@build_for_other_sizes_repaired.reference
def double(x):
    return x + x
