"""Planted: a tile is stored and loaded again one element further, without a barrier between the two."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "thread-race"
SMALLEST = {"T": 65}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def shifted_reload(x):
    return beside(__file__, "kernels/shifted_reload.py").add_next(x, waits=False)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def shifted_reload_repaired(x):
    return beside(__file__, "kernels/shifted_reload.py").add_next(x, waits=True)


@shifted_reload.reference
@shifted_reload_repaired.reference
def add_next(x):
    import torch

    is_last = (torch.arange(len(x), device=x.device) + 1) % 256 == 0
    following = torch.cat([x[1:], x.new_zeros(1)])
    return x + torch.where(is_last, 0.0, following)
