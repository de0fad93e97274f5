"""Twice x through descriptors that the kernel makes, with allocators of scratch memory that are right or wrong."""

from collections.abc import Callable
from contextvars import copy_context

import torch
import triton
import triton.language as tl

BLOCK = 16
WORDS = 64
"""Floats of scratch memory for each program: two descriptors of 128 bytes."""


@triton.jit
def double_kernel(x, y, T, D: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK
    rows_x = tl.make_tensor_descriptor(x, shape=[T, D], strides=[D, 1], block_shape=[BLOCK, D])
    rows_y = tl.make_tensor_descriptor(y, shape=[T, D], strides=[D, 1], block_shape=[BLOCK, D])
    rows_y.store([i, 0], 2.0 * rows_x.load([i, 0]))


@triton.jit
def biased_kernel(x, y, bias, T, D: tl.constexpr, BLOCK: tl.constexpr, WORDS: tl.constexpr):
    i = tl.program_id(0)
    rows_x = tl.make_tensor_descriptor(x, shape=[T, D], strides=[D, 1], block_shape=[BLOCK, D])
    rows_y = tl.make_tensor_descriptor(y, shape=[T, D], strides=[D, 1], block_shape=[BLOCK, D])
    zero = tl.sum(tl.load(bias + i * WORDS + tl.arange(0, 16)))
    rows_y.store([i * BLOCK, 0], 2.0 * rows_x.load([i * BLOCK, 0]) + zero)


@triton.jit
def counting_kernel(x, y, count, T, D: tl.constexpr, BLOCK: tl.constexpr, WORDS: tl.constexpr):
    i = tl.program_id(0)
    rows_x = tl.make_tensor_descriptor(x, shape=[T, D], strides=[D, 1], block_shape=[BLOCK, D])
    rows_y = tl.make_tensor_descriptor(y, shape=[T, D], strides=[D, 1], block_shape=[BLOCK, D])
    rows_y.store([i * BLOCK, 0], 2.0 * rows_x.load([i * BLOCK, 0]))
    tl.store(count + i * WORDS, tl.minimum(T - i * BLOCK, BLOCK).to(tl.float32))


class Address:
    """Memory that only an address stands for."""

    def __init__(self, memory: torch.Tensor, held: torch.Tensor | None) -> None:
        self._address = memory.data_ptr()
        self._held = held

    def data_ptr(self) -> int:
        return self._address


def _fresh(size: int, alignment: int, stream: int | None) -> torch.Tensor:
    del alignment, stream
    return torch.empty(size, dtype=torch.int8, device="cuda")


def _with(allocator: Callable[..., object], launch: Callable[[], torch.Tensor]) -> torch.Tensor:
    """Launch with an allocator that later cases of this process do not find."""

    def set_and_launch() -> torch.Tensor:
        triton.set_allocator(allocator)
        return launch()

    return copy_context().run(set_and_launch)


def _double(x: torch.Tensor) -> torch.Tensor:
    x = x.clone(memory_format=torch.contiguous_format)  # descriptors need addresses aligned to 16 bytes
    rows, columns = x.shape
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(rows, BLOCK),)](x, y, rows, D=columns, BLOCK=BLOCK)
    return y


class _Double(torch.autograd.Function):
    """Sets an allocator in forward.  Autograd calls backward in another thread."""

    @staticmethod
    def forward(ctx, x, sets_in_backward):
        ctx.sets_in_backward = sets_in_backward
        return _with(_fresh, lambda: _double(x))

    @staticmethod
    def backward(ctx, dy):
        return (_with(_fresh, lambda: _double(dy)) if ctx.sets_in_backward else _double(dy)), None


def differentiable(x: torch.Tensor, *, sets_in_backward: bool) -> torch.Tensor:
    return _Double.apply(x, sets_in_backward)


def with_kept_memory(x: torch.Tensor, *, grows: bool) -> torch.Tensor:
    """Launch for the first row alone, and then for all, with an allocator that keeps its memory."""
    kept: list[torch.Tensor] = []

    def allocator(size: int, alignment: int, stream: int | None) -> torch.Tensor:
        if not kept or (grows and kept[-1].numel() < size):
            kept.append(_fresh(size, alignment, stream))
        return kept[-1]

    def launch() -> torch.Tensor:
        _double(x[:1])
        return _double(x)

    return _with(allocator, launch)


def with_offset(x: torch.Tensor, *, offset: int) -> torch.Tensor:
    """Launch with scratch memory that begins so many bytes behind an aligned address."""
    return _with(lambda size, *more: _fresh(size + offset, *more)[offset:], lambda: _double(x))


def with_address(x: torch.Tensor, *, holds: bool) -> torch.Tensor:
    """Launch with an allocator that returns an address, and holds its memory or does not."""

    def allocator(size: int, alignment: int, stream: int | None) -> Address:
        memory = _fresh(size, alignment, stream)
        return Address(memory, memory if holds else None)

    return _with(allocator, lambda: _double(x))


def with_bias(x: torch.Tensor, *, shares: bool) -> torch.Tensor:
    """Add a workspace that holds zeros, which is also the scratch memory if it is shared."""
    programs = triton.cdiv(x.shape[0], BLOCK)
    workspace = torch.zeros(programs * WORDS, device=x.device)

    def launch() -> torch.Tensor:
        rows = x.clone(memory_format=torch.contiguous_format)
        y = torch.empty_like(rows)
        biased_kernel[(programs,)](rows, y, workspace, len(rows), D=rows.shape[1], BLOCK=BLOCK, WORDS=WORDS)
        return y

    return _with((lambda *_: workspace) if shares else _fresh, launch)


def with_count(x: torch.Tensor, *, shares: bool) -> torch.Tensor:
    """Store the number of rows of each program to a workspace, which is also the scratch memory if it is shared."""
    programs = triton.cdiv(x.shape[0], BLOCK)
    workspace = torch.zeros(programs * WORDS, device=x.device)

    def launch() -> torch.Tensor:
        rows = x.clone(memory_format=torch.contiguous_format)
        y = torch.empty_like(rows)
        counting_kernel[(programs,)](rows, y, workspace, len(rows), D=rows.shape[1], BLOCK=BLOCK, WORDS=WORDS)
        return y

    return _with((lambda *_: workspace) if shares else _fresh, launch)
