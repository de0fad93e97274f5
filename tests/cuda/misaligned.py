"""A suite of tensor descriptors that are used as no copy engine can, one op for each rule, and of one that is well."""

from contextvars import copy_context
from typing import Any

from tests.cuda.faults import planted


def moved(x: Any, *, stride: int = 32, before: int = 0, first: int = 0) -> Any:
    """Adds 1 to `x`, of which 8 columns from `first` on go through a descriptor of rows `stride` elements apart."""
    import torch
    import triton

    from tests.cuda import fault_kernels

    held = x.new_zeros(before + 8 * stride)[before:].view(8, stride)
    held[: x.shape[0], :32] = x
    block = x.new_empty(8, 8)

    def scratch(size: int, alignment: int, stream: int | None) -> Any:
        del alignment, stream
        return torch.empty(size, dtype=torch.int8, device=x.device)

    def launch() -> None:
        triton.set_allocator(scratch)
        fault_kernels.move_block[(1,)](held, block, stride, first)

    copy_context().run(launch)
    y = x + 1
    y[:, first : first + 8] = block[: x.shape[0]] + 1
    return y


@planted
def aligned(x: Any) -> Any:
    return moved(x, before=4, stride=36, first=4)


@planted
def tensor(x: Any) -> Any:
    return moved(x, before=1)


@planted
def rows(x: Any) -> Any:
    return moved(x, stride=33)


@planted
def block(x: Any) -> Any:
    return moved(x, first=2)
