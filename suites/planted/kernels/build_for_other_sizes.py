"""Doubles x through a build that was compiled for the first call, or for each call."""

import torch
import triton
import triton.language as tl

BLOCK = 64
_builds = {}


@triton.jit
def double_kernel(x, y, T, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, 2 * tl.load(x + o, mask=o < T, other=0.0), mask=o < T)


def double(x: torch.Tensor, *, assumed: int) -> torch.Tensor:
    """Double x; the build is for an x of `assumed` elements, or for each x if that is 0."""
    x = x.contiguous()
    y = torch.empty_like(x)
    T = x.shape[0]
    grid = (triton.cdiv(T, BLOCK), 1, 1)
    if assumed:
        if assumed not in _builds:
            _builds[assumed] = double_kernel.warmup(x.dtype, x.dtype, assumed, BLOCK=BLOCK, grid=grid)
        _builds[assumed][grid](x, y, T, BLOCK)
    else:
        double_kernel[grid](x, y, T, BLOCK=BLOCK)
    return y
