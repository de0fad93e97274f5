"""Planted: a total is set to zero unless a CUDA graph is captured, so each replay adds to the one before."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "graph-replay"
SMALLEST = {"T": 1}
CASES = 100

DIMS = {"T": tokens(512, grows=False)}
X = {"x": tensor("T", grad=False, contiguous=True)}


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,), graphs=True)
def unreset_total(x):
    return beside(__file__, "kernels/block_sums.py").sum_beside(x, on_device=False)


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,), graphs=True)
def unreset_total_repaired(x):
    return beside(__file__, "kernels/block_sums.py").sum_beside(x, on_device=True)


@unreset_total.reference
@unreset_total_repaired.reference
def double_and_total(x):
    return x * 2, x.sum()[None]
