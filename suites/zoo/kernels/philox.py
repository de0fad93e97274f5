"""Philox in kernels: dropout that returns its mask, normally distributed noise, and stochastic rounding."""

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 256


@triton.jit
def dropout_kernel(x, seed, y, kept, SIZE, p, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_kept = tl.rand(tl.load(seed), o) > p
    b_y = tl.where(b_kept, b_x / (1.0 - p), 0.0)
    tl.store(y + o, b_y.to(y.dtype.element_ty), mask=o < SIZE)
    tl.store(kept + o, b_kept.to(tl.int8), mask=o < SIZE)


@triton.jit
def dropout_grad_kernel(dy, kept, dx, SIZE, p, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b_dy = tl.load(dy + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_kept = tl.load(kept + o, mask=o < SIZE, other=0)
    b_dx = tl.where(b_kept != 0, b_dy / (1.0 - p), 0.0)
    tl.store(dx + o, b_dx.to(dx.dtype.element_ty), mask=o < SIZE)


@triton.jit
def noise_kernel(x, seed, y, SIZE, sigma, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_y = b_x + sigma * tl.randn(tl.load(seed), o)
    tl.store(y + o, b_y.to(y.dtype.element_ty), mask=o < SIZE)


@triton.jit
def stochastic_rounding_kernel(x, seed, y, SIZE, BLOCK: tl.constexpr):
    """Round float32 to bfloat16: add 16 random bits below those that stay, and cut off."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b_bits = tl.load(x + o, mask=o < SIZE, other=0.0).to(tl.uint32, bitcast=True)
    b_random = tl.randint(tl.load(seed), o).to(tl.uint32, bitcast=True) & 0xFFFF
    b_y = ((b_bits + b_random) & 0xFFFF0000).to(tl.float32, bitcast=True)
    tl.store(y + o, b_y.to(tl.bfloat16), mask=o < SIZE)


class Dropout(torch.autograd.Function):
    """Returns the result and the mask, 1 for elements that are kept."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, seed: torch.Tensor, p: float) -> tuple[torch.Tensor, torch.Tensor]:
        x = x.contiguous()
        y, kept = torch.empty_like(x), torch.empty(x.shape, dtype=torch.int8, device=x.device)
        dropout_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, seed, y, kept, x.numel(), p, BLOCK=BLOCK)
        ctx.save_for_backward(kept)
        ctx.p = p
        ctx.mark_non_differentiable(kept)
        return y, kept

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor, _dkept: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (kept,) = ctx.saved_tensors
        dy = dy.contiguous()
        dx = torch.empty_like(dy)
        dropout_grad_kernel[(triton.cdiv(dy.numel(), BLOCK),)](dy, kept, dx, dy.numel(), ctx.p, BLOCK=BLOCK)
        return dx, None, None


def dropout(x: torch.Tensor, seed: torch.Tensor, p: float) -> tuple[torch.Tensor, torch.Tensor]:
    return Dropout.apply(x, seed, p)


def noise(x: torch.Tensor, seed: torch.Tensor, sigma: float) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    noise_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, seed, y, x.numel(), sigma, BLOCK=BLOCK)
    return y


def round_stochastically(x: torch.Tensor, seed: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty(x.shape, dtype=torch.bfloat16, device=x.device)
    stochastic_rounding_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, seed, y, x.numel(), BLOCK=BLOCK)
    return y
