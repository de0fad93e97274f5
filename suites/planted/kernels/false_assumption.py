"""Doubles x; the first row is promised to be none, or any row."""

import torch
import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def double_kernel(x, y, T, least, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    tl.assume(row >= least)
    o = row * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, 2 * tl.load(x + o, mask=o < T, other=0.0), mask=o < T)


def double(x: torch.Tensor, *, least: int) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.shape[0], BLOCK),)](x, y, x.shape[0], least, BLOCK=BLOCK)
    return y
