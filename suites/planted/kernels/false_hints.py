"""Kernels that describe lanes to the compiler, each with and without its hint."""

import torch
import triton
import triton.language as tl

BLOCK = 64


@triton.jit
def repeat_kernel(x, y, T, HINTS: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    wrapped = o % T
    if HINTS:
        wrapped = tl.max_contiguous(tl.multiple_of(wrapped, BLOCK), BLOCK)
    tl.store(y + o, tl.load(x + wrapped))


def repeat(x: torch.Tensor, *, hints: bool) -> torch.Tensor:
    """Fill whole blocks with x, again and again."""
    x = x.contiguous()
    blocks = triton.cdiv(x.shape[0], BLOCK)
    y = x.new_empty(blocks * BLOCK)
    repeat_kernel[(blocks,)](x, y, x.shape[0], hints, BLOCK=BLOCK)
    return y


@triton.jit
def head_kernel(x, y, D, HINTS: tl.constexpr, HEAD: tl.constexpr):
    row = tl.program_id(0)
    first = row * D
    if HINTS:
        first = tl.multiple_of(first, 4)
    o = tl.arange(0, HEAD)
    tl.store(y + row * HEAD + o, 2 * tl.load(x + first + o))


def heads(x: torch.Tensor, *, head: int, hints: bool) -> torch.Tensor:
    """Double the first `head` columns of each row."""
    x = x.contiguous()
    y = x.new_empty(x.shape[0], head)
    head_kernel[(x.shape[0],)](x, y, x.shape[1], hints, HEAD=head)
    return y


@triton.jit
def tail_kernel(x, y, T, HINTS: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = o < T
    if HINTS:
        inside = tl.max_constancy(inside, 8)
    tl.store(y + o, 2 * tl.load(x + o, mask=inside, other=0.0), mask=inside)


def double(x: torch.Tensor, *, hints: bool) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    tail_kernel[(triton.cdiv(x.shape[0], BLOCK),)](x, y, x.shape[0], hints, BLOCK=BLOCK)
    return y
