"""A suite with one op for each alignment rule of tensor descriptors that it breaks, and one op that breaks none."""

from contextvars import copy_context
from typing import Any

from ci.fault_suite.faults import planted


def moved(x: Any, *, stride: int = 32, before: int = 0, first: int = 0) -> Any:
    """Return `x + 1`, for which 8 columns from `first` on are copied through a tensor descriptor.

    Args:
        x: the rows to copy.
        stride: elements between the rows that the descriptor describes.
        before: elements between the start of the allocation and the tensor.
        first: the column at which the descriptor's block begins.
    """
    import torch
    import triton

    from tests.engines.cuda import misaligned_kernels

    held = x.new_zeros(before + 8 * stride)[before:].view(8, stride)
    held[: x.shape[0], :32] = x
    block = x.new_empty(8, 8)

    def scratch(size: int, alignment: int, stream: int | None) -> Any:
        del alignment, stream
        return torch.empty(size, dtype=torch.int8, device=x.device)

    def launch() -> None:
        triton.set_allocator(scratch)
        misaligned_kernels.move_block[(1,)](held, block, stride, first)

    # Triton keeps the allocator in a context variable: a copied context leaves later cases without it.
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
