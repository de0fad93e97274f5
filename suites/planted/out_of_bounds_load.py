"""Planted: a shifted load has the mask of the unshifted one, so it reads one element too far."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "bounds"
SMALLEST = {"T": 1}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def out_of_bounds_load(x):
    return beside(__file__, "kernels/out_of_bounds_load.py").following(x, lookahead=0)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def out_of_bounds_load_repaired(x):
    return beside(__file__, "kernels/out_of_bounds_load.py").following(x, lookahead=1)


@out_of_bounds_load.reference
@out_of_bounds_load_repaired.reference
def following(x):
    from torch.nn import functional

    return functional.pad(x[1:], (0, 1))
