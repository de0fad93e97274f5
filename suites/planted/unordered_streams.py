"""Planted: a second stream sums partial sums without an event that orders it after the kernel that computes them."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "graph-replay"
SMALLEST = {"T": 1}
CASES = 100

DIMS = {"T": tokens(512, grows=False)}
X = {"x": tensor("T", grad=False, contiguous=True)}


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,), graphs=True)
def unordered_streams(x):
    return beside(__file__, "kernels/block_sums.py").total_on_two_streams(x, waits=False)


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,), graphs=True)
def unordered_streams_repaired(x):
    return beside(__file__, "kernels/block_sums.py").total_on_two_streams(x, waits=True)


@unordered_streams.reference
@unordered_streams_repaired.reference
def double_and_total(x):
    return x * 2, x.sum()[None]
