"""Twice x, in tiles of 16; a host option chooses how many rows a program advances."""

import torch
import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def double_kernel(x, y, T, STEP: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0) * STEP + tl.arange(0, BLOCK)
    m = o < T
    tl.store(y + o, 2.0 * tl.load(x + o, mask=m, other=0.0), mask=m)


def double(x: torch.Tensor, *, rows_per_program: int) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    grid = (triton.cdiv(x.shape[0], rows_per_program),)
    double_kernel[grid](x, y, x.shape[0], STEP=rows_per_program, BLOCK=BLOCK)
    return y
