"""x * sigmoid(x), forward and backward; a host option makes the gradient complete."""

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def silu_kernel(x, y, T, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < T, other=0.0)
    tl.store(y + o, b_x / (1.0 + tl.exp(-b_x)), mask=o < T)


@triton.jit
def silu_grad_kernel(x, dy, dx, T, WHOLE: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < T, other=0.0)
    b_s = 1.0 / (1.0 + tl.exp(-b_x))
    b_dx = tl.load(dy + o, mask=o < T, other=0.0) * b_s
    if WHOLE:
        b_dx *= 1.0 + b_x * (1.0 - b_s)
    tl.store(dx + o, b_dx, mask=o < T)


class Silu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, whole: bool) -> torch.Tensor:  # noqa: FBT001 - autograd passes by position
        x = x.contiguous()
        y = torch.empty_like(x)
        silu_kernel[(triton.cdiv(x.shape[0], BLOCK),)](x, y, x.shape[0], BLOCK=BLOCK)
        ctx.save_for_backward(x)
        ctx.whole = whole
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        grid = (triton.cdiv(x.shape[0], BLOCK),)
        silu_grad_kernel[grid](x, dy.contiguous(), dx, x.shape[0], WHOLE=ctx.whole, BLOCK=BLOCK)
        return dx, None


def silu(x: torch.Tensor, *, whole_gradient: bool) -> torch.Tensor:
    return Silu.apply(x, whole_gradient)
