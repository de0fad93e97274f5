"""Planted: a tile of constants is stored, then other threads store some of its cells again without a barrier."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "thread-race"
SMALLEST = {"T": 65}

DIMS = {"T": tokens(1024, grows=False)}
X = {"x": tensor("T", grad=False)}


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def rewritten_cells(x):
    return beside(__file__, "kernels/rewritten_cells.py").keep(x, every_other(x), waits=False)


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def rewritten_cells_repaired(x):
    return beside(__file__, "kernels/rewritten_cells.py").keep(x, every_other(x), waits=True)


def every_other(x):
    import torch

    return torch.arange(0, len(x), 2, dtype=torch.int32, device=x.device)


@rewritten_cells.reference
@rewritten_cells_repaired.reference
def keep(x):
    import torch

    return torch.where(torch.arange(len(x), device=x.device) % 2 == 0, x, -1.0)
