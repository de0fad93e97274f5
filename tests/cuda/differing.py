"""A suite of what both GPUs agree on, and of what they do not; `EXPECTED` says how each is judged."""

from typing import Any

from tests.cuda.faults import by_rows, planted

EXPECTED = {"tells_its_address": ("agreement", "y")}
"""By op, the oracle and the place in the signature."""


@planted
def agrees(x: Any) -> Any:
    from tests.cuda import fault_kernels

    return by_rows(fault_kernels.add_one, x)


@planted
def differs_by_cancelling(x: Any) -> Any:
    from tests.cuda import fault_kernels

    by_rows(fault_kernels.cancel, x)
    return x + 1


@planted
def tells_its_address(x: Any) -> Any:
    from tests.cuda import fault_kernels

    by_rows(fault_kernels.add_one_and_tell_address, x)
    return x + 1


@planted
def strays_on_the_real_gpu(x: Any) -> Any:
    from tests.cuda import fault_kernels

    y = x + 1
    fault_kernels.store_at[(1,)](y, 1 << 44)
    return y
