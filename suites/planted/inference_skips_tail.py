"""Planted: without gradients the grid is rounded down, so the last tile is never computed."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "unwritten"
SMALLEST = {"T": 17}
GRAD_MODE = "no_grad"
CASES = 240

X = {"x": tensor("T")}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def inference_skips_tail(x):
    return beside(__file__, "kernels/inference_skips_tail.py").double(x, rounds_up=False)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def inference_skips_tail_repaired(x):
    return beside(__file__, "kernels/inference_skips_tail.py").double(x, rounds_up=True)


@inference_skips_tail.reference
@inference_skips_tail_repaired.reference
def double(x):
    return x + x
