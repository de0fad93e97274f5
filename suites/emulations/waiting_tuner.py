"""An emulation of a tuner that measures in a thread and takes every exception for a config that does not work.

The thread that joins it waits for a result that never comes, if the kernel needs scratch memory: the allocator is set
in the joining thread alone.  `copies_context=True` is the repaired tuner, which hands its context over.
"""

from harness.suite import Dim, DType, beside, op, tensor, tokens

DIMS = {"T": tokens(64, grows=False), "D": Dim(low=16, high=32, choices=(16, 32))}
X = {"x": tensor("T", "D", grad=False)}


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def waiting_tuner(x):
    return beside(__file__, "kernels/waiting_tuner.py").doubled(x, copies_context=False)


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def waiting_tuner_repaired(x):
    return beside(__file__, "kernels/waiting_tuner.py").doubled(x, copies_context=True)


@waiting_tuner.reference
@waiting_tuner_repaired.reference
def double(x):
    return x + x
