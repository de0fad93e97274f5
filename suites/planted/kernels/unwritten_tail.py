"""Twice x, in tiles of 16; a host option chooses the number of programs."""

import torch
import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def double_kernel(x, y, T, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, 2.0 * tl.load(x + o, mask=o < T, other=0.0), mask=o < T)


def double(x: torch.Tensor, *, programs: int) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    double_kernel[(programs,)](x, y, x.shape[0], BLOCK=BLOCK)
    return y
