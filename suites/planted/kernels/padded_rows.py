"""Twice x, padded to tiles of 16; a host option cuts the padding off."""

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def padded_double_kernel(x, y, T, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, 2.0 * tl.load(x + o, mask=o < T, other=0.0))


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, cuts: bool) -> torch.Tensor:  # noqa: FBT001 - autograd passes by position
        ctx.rows = x.shape[0]
        x = x.contiguous()
        tiles = triton.cdiv(x.shape[0], BLOCK)
        y = torch.empty(tiles * BLOCK, dtype=x.dtype, device=x.device)
        padded_double_kernel[(tiles,)](x, y, x.shape[0], BLOCK=BLOCK)
        return y[: x.shape[0]] if cuts else y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None]:
        return 2.0 * dy[: ctx.rows], None


def double(x: torch.Tensor, *, cuts: bool) -> torch.Tensor:
    return Double.apply(x, cuts)
