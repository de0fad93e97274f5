"""Planted: the kernel adds to an accumulator that was never zeroed."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "uninitialised-read"
SMALLEST = {"T": 1}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def uninitialised_read(x):
    return beside(__file__, "kernels/uninitialised_read.py").accumulate(x, zeroed=False)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def uninitialised_read_repaired(x):
    return beside(__file__, "kernels/uninitialised_read.py").accumulate(x, zeroed=True)


@uninitialised_read.reference
@uninitialised_read_repaired.reference
def accumulate(x):
    return x.clone()
