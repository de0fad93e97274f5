"""Planted: the loop strides by one config's tile size whichever config runs, so the others skip elements."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "config-invariance"
SMALLEST = {"T": 17}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def config_dependent(x):
    return beside(__file__, "kernels/config_dependent.py").total(x, strides_by_block=False)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def config_dependent_repaired(x):
    return beside(__file__, "kernels/config_dependent.py").total(x, strides_by_block=True)


@config_dependent.reference
@config_dependent_repaired.reference
def total(x):
    return x.sum(0, keepdim=True)
