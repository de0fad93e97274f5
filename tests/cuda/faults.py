"""A suite of what goes wrong on a real GPU, one op each, and of what does not; `EXPECTED` says how each is judged."""

import ctypes
import itertools
import threading
from typing import Any

from harness.suite import Declaration, DType, op, tensor, tokens

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
"""By op, the oracle and a part of the place in the signature."""
NO_MEMORY = "asks_too_much_memory"
"""Judged by nobody: the case does not fit the GPU."""
UNDER = {"reads_uninitialised": "initcheck", "races_in_shared_memory": "racecheck"}
"""By op, the tool of compute-sanitizer that sees it."""
_CALLS = itertools.count()


def planted(function: Any) -> Declaration:
    declared = op(dims={"T": tokens(ROWS)}, inputs={"x": tensor("T", COLUMNS, grad=False)}, dtypes=(DType.FP32,))(
        function
    )
    declared.reference(lambda x: x + 1)
    return declared


def by_rows(kernel: Any, x: Any) -> Any:
    """What a kernel makes of each row of `x` in a program of its own."""
    y = x.new_empty(x.shape)
    kernel[(x.shape[0],)](x, y, x.shape[1])
    return y


@planted
def good(x: Any) -> Any:
    from tests.cuda import fault_kernels

    return by_rows(fault_kernels.add_one, x)


@planted
def spins(x: Any) -> Any:
    import torch

    from tests.cuda import fault_kernels

    fault_kernels.spin[(1,)](x.new_zeros(1, dtype=torch.int32))
    return x + 1


@planted
def stores_far_outside(x: Any) -> Any:
    from tests.cuda import fault_kernels

    y = x + 1
    fault_kernels.store_at[(1,)](y, 1 << 44)
    return y


@planted
def stores_just_outside(x: Any) -> Any:
    from tests.cuda import fault_kernels

    y = x + 1
    z = y.new_empty(y.shape)
    fault_kernels.add_one[(x.shape[0],)](x, z, x.shape[1])
    fault_kernels.store_at[(1,)](z, z.numel())
    return z


@planted
def stores_into_next_row(x: Any) -> Any:
    from tests.cuda import fault_kernels

    wide = x.new_empty((x.shape[0] + 1, x.shape[1]))
    fault_kernels.add_one[(x.shape[0],)](x, wide, x.shape[1])
    fault_kernels.store_at[(1,)](wide, (x.shape[0] - 1) * x.shape[1])
    return wide[:-1]


@planted
def misaligned(x: Any) -> Any:
    from tests.cuda import fault_kernels

    y = x + 1
    fault_kernels.store_misaligned[(1,)](y)
    return y


@planted
def fails_assertion(x: Any) -> Any:
    from tests.cuda import fault_kernels

    y = x + 1
    fault_kernels.assert_below[(1,)](y, 5, debug=True)  # pyright: ignore[reportCallIssue] - Triton's own option
    return y


@planted
def strays_every_second_time(x: Any) -> Any:
    """In a process that is new: as the case runs again."""
    from tests.cuda import fault_kernels

    y = by_rows(fault_kernels.add_one, x)
    if next(_CALLS) % 2:
        fault_kernels.store_at[(1,)](y, 1 << 44)
    return y


@planted
def strays_in_torch(x: Any) -> Any:
    """Before a kernel that does nothing wrong, which nobody waits for."""
    import torch

    nowhere = torch.full((1,), 1 << 40, dtype=torch.int64, device=x.device)
    return good._call(x + x.flatten()[nowhere])


@planted
def gives_other_bits(x: Any) -> Any:
    from tests.cuda import fault_kernels

    return by_rows(fault_kernels.add_one_and_bits_of_the_clock, x)


@planted
def host_deadlocks(x: Any) -> Any:
    good._call(x)
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
    return x + 1


@planted
def crashes(x: Any) -> Any:
    good._call(x)
    ctypes.string_at(8)
    return x + 1


@planted
def asks_too_much_memory(x: Any) -> Any:
    return x.new_empty(1 << 44).sum() + x + 1


@planted
def reads_uninitialised(x: Any) -> Any:
    from tests.cuda import fault_kernels

    y = x.new_empty(x.shape)
    fault_kernels.add_times_zero[(x.shape[0],)](x, x.new_empty(x.shape), y, x.shape[1])
    return y


@planted
def races_in_shared_memory(x: Any) -> Any:
    from tests.cuda import fault_kernels

    y = x.new_empty(x.shape)
    fault_kernels.add_one[(x.shape[0],)](x, y, x.shape[1])
    fault_kernels.race_in_shared_memory[(1,)](x.new_empty(256))
    return y
