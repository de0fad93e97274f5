"""Planted: a workspace is kept for the device, and calls on two streams use it at once."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "graph-replay"
SMALLEST = {"T": 1}
CASES = 100

DIMS = {"T": tokens(512, grows=False)}
X = {"x": tensor("T", grad=False, contiguous=True)}


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,), graphs=True, threads=True)
def kept_beside_streams(x):
    return beside(__file__, "kernels/block_sums.py").total(x, clears=True)


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,), graphs=True, threads=True)
def kept_beside_streams_repaired(x):
    return beside(__file__, "kernels/block_sums.py").total_beside_others(x, keeps=False)


@kept_beside_streams.reference
@kept_beside_streams_repaired.reference
def total(x):
    return x.sum()[None]
