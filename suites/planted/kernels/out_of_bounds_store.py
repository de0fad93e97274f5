"""Twice x, in tiles of 16; a host option masks the store."""

import torch
import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def double_kernel(x, y, T, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b_y = 2.0 * tl.load(x + o, mask=o < T, other=0.0)
    if MASKED:
        tl.store(y + o, b_y, mask=o < T)
    else:
        tl.store(y + o, b_y)


def double(x: torch.Tensor, *, masked: bool) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.shape[0], BLOCK),)](x, y, x.shape[0], MASKED=masked, BLOCK=BLOCK)
    return y
