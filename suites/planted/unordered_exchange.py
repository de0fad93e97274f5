"""Planted: warps exchange numbers through shared memory, in assembly that leaves out the barrier."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "compiled-code"
ENGINE = "ptx"
SMALLEST = {"T": 1}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def unordered_exchange(x):
    return beside(__file__, "kernels/unordered_exchange.py").exchange(x, waits=False)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def unordered_exchange_repaired(x):
    return beside(__file__, "kernels/unordered_exchange.py").exchange(x, waits=True)


@unordered_exchange.reference
@unordered_exchange_repaired.reference
def swap_halves(x):
    import torch

    block = 128
    whole = torch.nn.functional.pad(x, (0, -len(x) % block)).reshape(-1, 2, block // 2)
    return whole.flip(1).reshape(-1)
