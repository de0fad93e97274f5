"""Sums of rows of products: with a term that is slightly off, or with an accumulator of 16 bits."""

import torch
import triton
import triton.language as tl

BLOCK = 32


@triton.jit
def scaled_sum_kernel(x, w, y, D, scale, NARROW: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.bfloat16 if NARROW else tl.float32)
    for first in range(0, D, BLOCK):
        at = first + tl.arange(0, BLOCK)
        b_x = tl.load(x + row * D + at, mask=at < D, other=0.0).to(tl.float32)
        b_w = tl.load(w + at, mask=at < D, other=0.0).to(tl.float32)
        product = b_x * b_w * scale
        total += product.to(tl.bfloat16) if NARROW else product
    tl.store(y + row, tl.sum(total.to(tl.float32), 0).to(y.dtype.element_ty))


def scaled_sum(x: torch.Tensor, w: torch.Tensor, scale: float = 1.0, *, narrow: bool = False) -> torch.Tensor:
    y = x.new_empty(x.shape[0])
    scaled_sum_kernel[(x.shape[0],)](x.contiguous(), w.contiguous(), y, x.shape[1], scale, NARROW=narrow, BLOCK=BLOCK)
    return y
