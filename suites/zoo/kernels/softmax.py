"""Softmax of rows, in one block and online, with masks of -1e30, its logarithm, and the logarithm of its sum."""

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 128
"""The columns that the online kernels read at once."""
FAR_BELOW = -1e30
"""The score of masked columns: finite, so that a difference of two of them is no NaN."""


@triton.jit
def softmax_kernel(x, y, D, SHIFTED: tl.constexpr, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=float("-inf")).to(tl.float32)
    if SHIFTED:
        b_x -= tl.max(b_x, axis=0)
    b_e = tl.exp(b_x)
    tl.store(y + i_t * D + o, (b_e / tl.sum(b_e, axis=0)).to(y.dtype.element_ty), mask=o < D)


@triton.jit
def softmax_grad_kernel(y, dy, dx, D, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_y = tl.load(y + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    b_dy = tl.load(dy + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    b_dx = b_y * (b_dy - tl.sum(b_y * b_dy, axis=0))
    tl.store(dx + i_t * D + o, b_dx.to(dx.dtype.element_ty), mask=o < D)


@triton.jit
def online_max_and_sum(x, D, BLOCK: tl.constexpr):
    """Return the maximum of a row and the sum of exp(x - maximum), from one pass over blocks."""
    o = tl.arange(0, BLOCK)
    m = float("-inf")
    total = 0.0
    for start in range(0, D, BLOCK):
        b_x = tl.load(x + start + o, mask=start + o < D, other=float("-inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(b_x, axis=0))
        total = total * tl.exp(m - m_new) + tl.sum(tl.exp(b_x - m_new), axis=0)
        m = m_new
    return m, total


@triton.jit
def softmax_online_kernel(x, y, lse, D, LOG: tl.constexpr, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    m, total = online_max_and_sum(x + i_t * D, D, BLOCK)
    b_lse = m + tl.log(total)
    tl.store(lse + i_t, b_lse)
    for start in range(0, D, BLOCK):
        b_x = tl.load(x + i_t * D + start + o, mask=start + o < D, other=0.0).to(tl.float32)
        b_y = b_x - b_lse if LOG else tl.exp(b_x - m) / total
        tl.store(y + i_t * D + start + o, b_y.to(y.dtype.element_ty), mask=start + o < D)


@triton.jit
def softmax_online_grad_kernel(x, lse, dy, dx, D, LOG: tl.constexpr, BLOCK: tl.constexpr):
    """Recompute the softmax p from x; dx is p * (dy - sum(p * dy)), or dy - p * sum(dy) for the logarithm."""
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_lse = tl.load(lse + i_t)
    b_sum = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, D, BLOCK):
        mask = start + o < D
        b_dy = tl.load(dy + i_t * D + start + o, mask=mask, other=0.0).to(tl.float32)
        if LOG:
            b_sum += b_dy
        else:
            b_x = tl.load(x + i_t * D + start + o, mask=mask, other=float("-inf")).to(tl.float32)
            b_sum += tl.exp(b_x - b_lse) * b_dy
    total = tl.sum(b_sum, axis=0)
    for start in range(0, D, BLOCK):
        mask = start + o < D
        b_dy = tl.load(dy + i_t * D + start + o, mask=mask, other=0.0).to(tl.float32)
        b_x = tl.load(x + i_t * D + start + o, mask=mask, other=float("-inf")).to(tl.float32)
        b_p = tl.exp(b_x - b_lse)
        b_dx = b_dy - b_p * total if LOG else b_p * (b_dy - total)
        tl.store(dx + i_t * D + start + o, b_dx.to(dx.dtype.element_ty), mask=mask)


@triton.jit
def softmax_masked_kernel(x, lengths, y, D, FAR_BELOW: tl.constexpr, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    length = tl.load(lengths + i_t)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=float("-inf")).to(tl.float32)
    b_x = tl.where((o < length) | (o >= D), b_x, FAR_BELOW)
    b_e = tl.exp(b_x - tl.max(b_x, axis=0))
    tl.store(y + i_t * D + o, (b_e / tl.sum(b_e, axis=0)).to(y.dtype.element_ty), mask=o < D)


@triton.jit
def softmax_masked_grad_kernel(y, lengths, dy, dx, D, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    length = tl.load(lengths + i_t)
    b_y = tl.load(y + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    b_dy = tl.load(dy + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    b_dx = tl.where(o < length, b_y * (b_dy - tl.sum(b_y * b_dy, axis=0)), 0.0)
    tl.store(dx + i_t * D + o, b_dx.to(dx.dtype.element_ty), mask=o < D)


@triton.jit
def logsumexp_kernel(x, lse, D, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    m, total = online_max_and_sum(x + i_t * D, D, BLOCK)
    tl.store(lse + i_t, m + tl.log(total))


@triton.jit
def logsumexp_grad_kernel(x, lse, dlse, dx, D, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=float("-inf")).to(tl.float32)
    b_dx = tl.load(dlse + i_t).to(tl.float32) * tl.exp(b_x - tl.load(lse + i_t))
    tl.store(dx + i_t * D + o, b_dx.to(dx.dtype.element_ty), mask=o < D)


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, shifted: bool) -> torch.Tensor:  # noqa: FBT001 - autograd passes by position
        x = x.contiguous()
        y = torch.empty_like(x)
        rows, columns = x.shape
        softmax_kernel[(rows,)](x, y, columns, SHIFTED=shifted, BLOCK=triton.next_power_of_2(columns))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None]:
        (y,) = ctx.saved_tensors
        dx = torch.empty_like(y)
        rows, columns = y.shape
        softmax_grad_kernel[(rows,)](y, dy.contiguous(), dx, columns, BLOCK=triton.next_power_of_2(columns))
        return dx, None


class OnlineSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, log: bool) -> torch.Tensor:  # noqa: FBT001 - autograd passes by position
        x = x.contiguous()
        y = torch.empty_like(x)
        rows, columns = x.shape
        lse = torch.empty(rows, dtype=torch.float32, device=x.device)
        softmax_online_kernel[(rows,)](x, y, lse, columns, LOG=log, BLOCK=BLOCK)
        ctx.save_for_backward(x, lse)
        ctx.log = log
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None]:
        x, lse = ctx.saved_tensors
        dx = torch.empty_like(x)
        rows, columns = x.shape
        softmax_online_grad_kernel[(rows,)](x, lse, dy.contiguous(), dx, columns, LOG=ctx.log, BLOCK=BLOCK)
        return dx, None


class MaskedSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        x, lengths = x.contiguous(), lengths.contiguous()
        y = torch.empty_like(x)
        rows, columns = x.shape
        block = triton.next_power_of_2(columns)
        softmax_masked_kernel[(rows,)](x, lengths, y, columns, FAR_BELOW=FAR_BELOW, BLOCK=block)
        ctx.save_for_backward(y, lengths)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None]:
        y, lengths = ctx.saved_tensors
        dx = torch.empty_like(y)
        rows, columns = y.shape
        block = triton.next_power_of_2(columns)
        softmax_masked_grad_kernel[(rows,)](y, lengths, dy.contiguous(), dx, columns, BLOCK=block)
        return dx, None


class LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        rows, columns = x.shape
        lse = torch.empty(rows, dtype=torch.float32, device=x.device)
        logsumexp_kernel[(rows,)](x, lse, columns, BLOCK=BLOCK)
        ctx.save_for_backward(x, lse)
        return lse.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, dlse: torch.Tensor) -> torch.Tensor:
        x, lse = ctx.saved_tensors
        dx = torch.empty_like(x)
        rows, columns = x.shape
        grid = (rows, triton.cdiv(columns, BLOCK))
        logsumexp_grad_kernel[grid](x, lse, dlse.contiguous(), dx, columns, BLOCK=BLOCK)
        return dx


def softmax(x: torch.Tensor, *, shifted: bool = True) -> torch.Tensor:
    return Softmax.apply(x, shifted)


def softmax_online(x: torch.Tensor, *, log: bool = False) -> torch.Tensor:
    return OnlineSoftmax.apply(x, log)


def softmax_masked(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    return MaskedSoftmax.apply(x, lengths)


def logsumexp(x: torch.Tensor) -> torch.Tensor:
    return LogSumExp.apply(x)
