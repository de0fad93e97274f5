"""Planted: a plan that one graph makes once lies in a shared memory pool, where a later graph gets its place."""

from harness.suite import DType, beside, integers, op, tensor, tokens

ORACLE = "uninitialised-read"
SMALLEST = {"B": 1, "T": 1}

DIMS = {"B": tokens(8, grows=False), "T": tokens(64, grows=False)}
INPUTS = {
    "q": tensor("B", grad=False, contiguous=True),
    "cache": tensor("T", grad=False, contiguous=True),
    "lengths": integers("B", low=1, high="T + 1", contiguous=True),
}


@op(dims=DIMS, inputs=INPUTS, dtypes=(DType.FP32,))
def overwritten_pool(q, cache, lengths):
    return beside(__file__, "kernels/served_batches.py").decode(q, cache, lengths, holds_plan=False)


@op(dims=DIMS, inputs=INPUTS, dtypes=(DType.FP32,))
def overwritten_pool_repaired(q, cache, lengths):
    return beside(__file__, "kernels/served_batches.py").decode(q, cache, lengths, holds_plan=True)


@overwritten_pool.reference
@overwritten_pool_repaired.reference
def decoded(q, cache, lengths):
    return 2 * q * cache.cumsum(0)[lengths.long() - 1]
