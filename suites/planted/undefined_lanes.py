"""Planted: a sum over lanes that a masked load without `other` left undefined."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "undefined-lanes"
SMALLEST = {"T": 1}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def undefined_lanes(x):
    return beside(__file__, "kernels/undefined_lanes.py").total(x, filled=False)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def undefined_lanes_repaired(x):
    return beside(__file__, "kernels/undefined_lanes.py").total(x, filled=True)


@undefined_lanes.reference
@undefined_lanes_repaired.reference
def total(x):
    return x.sum(0, keepdim=True)
