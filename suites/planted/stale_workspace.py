"""Planted: a workspace is cleared when it is allocated, and a shorter call adds what a longer one left there."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "repeat-call"
SMALLEST = {"T": 1}
CASES = 100

DIMS = {"T": tokens(512, grows=False)}
X = {"x": tensor("T", grad=False, contiguous=True)}


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def stale_workspace(x):
    return beside(__file__, "kernels/block_sums.py").total(x, clears=False)


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def stale_workspace_repaired(x):
    return beside(__file__, "kernels/block_sums.py").total(x, clears=True)


@stale_workspace.reference
@stale_workspace_repaired.reference
def total(x):
    return x.sum()[None]
