"""Sums of neighbours by way of memory: each program stores its tile and loads it again, shifted by one element."""

import torch
import triton
import triton.language as tl

BLOCK = 256


@triton.jit
def add_next_kernel(x, y, buffer, T, WAITS: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = tl.load(x + o, mask=o < T, other=0.0)
    tl.store(buffer + o, here, mask=o < T)
    if WAITS:
        tl.debug_barrier()
    is_inside = (o + 1 < T) & (o % BLOCK != BLOCK - 1)
    following = tl.load(buffer + o + 1, mask=is_inside, other=0.0)
    tl.store(y + o, here + following, mask=o < T)


def add_next(x: torch.Tensor, *, waits: bool) -> torch.Tensor:
    x = x.contiguous()
    y, buffer = torch.empty_like(x), torch.empty_like(x)
    add_next_kernel[(triton.cdiv(x.shape[0], BLOCK),)](x, y, buffer, x.shape[0], WAITS=waits, BLOCK=BLOCK)
    return y
