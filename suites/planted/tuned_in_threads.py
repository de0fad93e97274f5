"""Planted: two threads call an autotuned kernel, and Triton's autotuner keeps one thread's arguments at a time."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "autotuner-threads"
SMALLEST = {"T": 1}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,), threads=True)
def tuned_in_threads(x):
    return beside(__file__, "kernels/tuned_in_threads.py").doubled(x.contiguous(), locks=False)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,), threads=True)
def tuned_in_threads_repaired(x):
    return beside(__file__, "kernels/tuned_in_threads.py").doubled(x.contiguous(), locks=True)


@tuned_in_threads.reference
@tuned_in_threads_repaired.reference
def doubled(x):
    return x + x
