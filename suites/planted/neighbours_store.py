"""Planted: a stencil in place, so a program reads a cell that another program stores."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "order-dependence"
SMALLEST = {"T": 17}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def neighbours_store(x):
    return beside(__file__, "kernels/neighbours_store.py").add_next(x, in_place=True)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def neighbours_store_repaired(x):
    return beside(__file__, "kernels/neighbours_store.py").add_next(x, in_place=False)


@neighbours_store.reference
@neighbours_store_repaired.reference
def add_next(x):
    from torch.nn import functional

    return x + functional.pad(x[1:], (0, 1))
