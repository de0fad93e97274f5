"""Planted faults that only a real GPU or compute-sanitizer shows, one op each, and one good op.

The GPU tests and `make bench-gpu` run these ops.  `EXPECTED` names the oracle that must report each fault.
"""

import ctypes
import itertools
import threading
from functools import cache
from typing import Any

from harness.suite import Declaration, DType, beside, op, tensor, tokens

ROWS, COLUMNS = 8, 32
EXPECTED = {
    "spins": ("completes", "device"),
    "stores_far_outside": ("completes", "illegal memory access"),
    "stores_just_outside": ("bounds", "outside the storage"),
    "stores_into_next_row": ("float64-values", "y"),
    "misaligned": ("completes", "misaligned address"),
    "fails_assertion": ("completes", "device assertion"),
    "host_deadlocks": ("completes", "host"),
    "crashes": ("completes", "SIGSEGV"),
    "gives_other_bits": ("repeatability", "y"),
}
"""By op, the oracle that fails and a part of the place in its signature."""
NO_MEMORY = "asks_too_much_memory"
"""The op whose cases do not fit on the GPU: no oracle fails."""
REPORTING_TOOL = {"reads_uninitialised": "initcheck", "races_in_shared_memory": "racecheck"}
"""By op, the tool of compute-sanitizer that reports it."""
_CALLS = itertools.count()


@cache
def kernels() -> Any:
    """The module of Triton kernels, which is imported in workers only."""
    return beside(__file__, "fault_kernels.py")


def planted(function: Any) -> Declaration:
    """Declare an op that adds 1 to `x`, of shape `[T, COLUMNS]`."""
    declared = op(dims={"T": tokens(ROWS)}, inputs={"x": tensor("T", COLUMNS, grad=False)}, dtypes=(DType.FP32,))(
        function
    )
    declared.reference(lambda x: x + 1)
    return declared


def by_rows(kernel: Any, x: Any) -> Any:
    """Launch `kernel` with one program for each row of `x`, and return its output."""
    y = x.new_empty(x.shape)
    kernel[(x.shape[0],)](x, y, x.shape[1])
    return y


@planted
def good(x: Any) -> Any:
    return by_rows(kernels().add_one, x)


@planted
def spins(x: Any) -> Any:
    import torch

    kernels().spin[(1,)](x.new_zeros(1, dtype=torch.int32))
    return x + 1


@planted
def stores_far_outside(x: Any) -> Any:
    y = x + 1
    kernels().store_at[(1,)](y, 1 << 44)
    return y


@planted
def stores_just_outside(x: Any) -> Any:
    y = x + 1
    z = y.new_empty(y.shape)
    kernels().add_one[(x.shape[0],)](x, z, x.shape[1])
    kernels().store_at[(1,)](z, z.numel())
    return z


@planted
def stores_into_next_row(x: Any) -> Any:
    wide = x.new_empty((x.shape[0] + 1, x.shape[1]))
    kernels().add_one[(x.shape[0],)](x, wide, x.shape[1])
    kernels().store_at[(1,)](wide, (x.shape[0] - 1) * x.shape[1])
    return wide[:-1]


@planted
def misaligned(x: Any) -> Any:
    y = x + 1
    kernels().store_misaligned[(1,)](y)
    return y


@planted
def fails_assertion(x: Any) -> Any:
    y = x + 1
    kernels().assert_below[(1,)](y, 5, debug=True)
    return y


@planted
def strays_every_second_time(x: Any) -> Any:
    """In a fresh process, stores far outside only when the case runs again."""
    y = by_rows(kernels().add_one, x)
    if next(_CALLS) % 2:
        kernels().store_at[(1,)](y, 1 << 44)
    return y


@planted
def strays_in_torch(x: Any) -> Any:
    """Torch's own kernel faults, asynchronously, before a correct Triton kernel is launched."""
    import torch

    nowhere = torch.full((1,), 1 << 40, dtype=torch.int64, device=x.device)
    return by_rows(kernels().add_one, x + x.flatten()[nowhere])


@planted
def gives_other_bits(x: Any) -> Any:
    return by_rows(kernels().add_one_and_bits_of_the_clock, x)


@planted
def host_deadlocks(x: Any) -> Any:
    by_rows(kernels().add_one, x)
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
    return x + 1


@planted
def crashes(x: Any) -> Any:
    by_rows(kernels().add_one, x)
    ctypes.string_at(8)
    return x + 1


@planted
def asks_too_much_memory(x: Any) -> Any:
    return x.new_empty(1 << 44).sum() + x + 1


@planted
def reads_uninitialised(x: Any) -> Any:
    y = x.new_empty(x.shape)
    kernels().add_times_zero[(x.shape[0],)](x, x.new_empty(x.shape), y, x.shape[1])
    return y


@planted
def races_in_shared_memory(x: Any) -> Any:
    y = x.new_empty(x.shape)
    kernels().add_one[(x.shape[0],)](x, y, x.shape[1])
    kernels().race_in_shared_memory[(1,)](x.new_empty(256))
    return y
