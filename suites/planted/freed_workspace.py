"""Planted: a workspace that a captured graph uses is replaced, and so freed, in a call that needs another size."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "graph-replay"
SMALLEST = {"T": 1}
CASES = 100

DIMS = {"T": tokens(512, grows=False)}
X = {"x": tensor("T", grad=False, contiguous=True)}


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,), graphs=True)
def freed_workspace(x):
    return beside(__file__, "kernels/block_sums.py").total_beside_others(x, keeps=True)


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,), graphs=True)
def freed_workspace_repaired(x):
    return beside(__file__, "kernels/block_sums.py").total_beside_others(x, keeps=False)


@freed_workspace.reference
@freed_workspace_repaired.reference
def total(x):
    return x.sum()[None]
