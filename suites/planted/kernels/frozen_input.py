"""x * w for one scale w; a host option decides if the sums for dw are computed without dx."""

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def scale_kernel(x, w, y, T, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < T, other=0.0)
    tl.store(y + o, b_x * tl.load(w), mask=o < T)


@triton.jit
def scale_grad_kernel(x, w, dy, dx, dw, T, HAS_DX: tl.constexpr, HAS_DW: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b_dy = tl.load(dy + o, mask=o < T, other=0.0)
    if HAS_DX:
        tl.store(dx + o, b_dy * tl.load(w), mask=o < T)
    if HAS_DW:
        b_x = tl.load(x + o, mask=o < T, other=0.0)
        tl.store(dw + tl.program_id(0), tl.sum(b_dy * b_x))


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, dw_needs_dx: bool) -> torch.Tensor:  # noqa: FBT001 - autograd passes by position
        x, w = x.contiguous(), w.contiguous()
        y = torch.empty_like(x)
        scale_kernel[(triton.cdiv(x.shape[0], BLOCK),)](x, w, y, x.shape[0], BLOCK=BLOCK)
        ctx.save_for_backward(x, w)
        ctx.dw_needs_dx = dw_needs_dx
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor, None]:
        x, w = ctx.saved_tensors
        programs = triton.cdiv(x.shape[0], BLOCK)
        has_dx = ctx.needs_input_grad[0]
        has_dw = has_dx or not ctx.dw_needs_dx
        dx, dw = torch.empty_like(x), torch.empty(programs, dtype=x.dtype, device=x.device)
        scale_grad_kernel[(programs,)](
            x, w, dy.contiguous(), dx, dw, x.shape[0], HAS_DX=has_dx, HAS_DW=has_dw, BLOCK=BLOCK
        )
        return dx if has_dx else None, dw.sum(0, keepdim=True), None


def scale(x: torch.Tensor, w: torch.Tensor, *, dw_needs_dx: bool) -> torch.Tensor:
    return Scale.apply(x, w, dw_needs_dx)
