"""Planted: graphs by batch size are captured with the longest length of the dummy batch, as a number of the host."""

from harness.suite import DType, beside, integers, op, tensor, tokens

ORACLE = "wrong-value"
SMALLEST = {"B": 1, "T": 2}

DIMS = {"B": tokens(8, grows=False), "T": tokens(64, grows=False)}
INPUTS = {
    "q": tensor("B", grad=False, contiguous=True),
    "cache": tensor("T", grad=False, contiguous=True),
    "lengths": integers("B", low=1, high="T + 1", contiguous=True),
}


@op(dims=DIMS, inputs=INPUTS, dtypes=(DType.FP32,))
def baked_length(q, cache, lengths):
    return beside(__file__, "kernels/served_batches.py").serve(q, cache, lengths, bakes_length=True)


@op(dims=DIMS, inputs=INPUTS, dtypes=(DType.FP32,))
def baked_length_repaired(q, cache, lengths):
    return beside(__file__, "kernels/served_batches.py").serve(q, cache, lengths, bakes_length=False)


@baked_length.reference
@baked_length_repaired.reference
def attended(q, cache, lengths):
    return q * cache.cumsum(0)[lengths.long() - 1]
