"""A suite of ops that hang on a hardware GPU, and of one that does not."""

import threading
from typing import Any

from harness.suite import Declaration, op, tensor, tokens


def hanging(function: Any) -> Declaration:
    declared = op(dims={"T": tokens(16)}, inputs={"x": tensor("T", grad=False)})(function)
    declared.reference(lambda x: x + 1)
    return declared


@hanging
def good(x: Any) -> Any:
    from tests.engines.cuda.hanging_kernels import good_kernel

    flag = x.new_zeros(1)
    good_kernel[(1,)](flag)
    return x + flag


@hanging
def device_spins(x: Any) -> Any:
    import torch

    from tests.engines.cuda.hanging_kernels import spin_kernel

    spin_kernel[(1,)](x.new_zeros(1, dtype=torch.int32))
    return x + 1


@hanging
def host_waits_after_a_launch(x: Any) -> Any:
    good._call(x)
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
    return x + 1
