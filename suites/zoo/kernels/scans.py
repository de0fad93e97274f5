"""Scans: sums, maxima and logsumexp of prefixes of rows, linear recurrences, and moving averages along tokens."""

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 128
"""The columns that a scan of rows reads at once."""
BLOCK_D = 32
"""The channels of one program of a recurrence."""


@triton.jit
def cumsum_kernel(x, y, D, REVERSE: tl.constexpr, BLOCK: tl.constexpr):
    """Scan blocks one after the other, from the last one on if reversed, and carry the sum along."""
    i_t = tl.program_id(0).to(tl.int64)
    carry = 0.0
    blocks = tl.cdiv(D, BLOCK)
    for i in range(blocks):
        i_block = blocks - 1 - i if REVERSE else i
        o = i_block * BLOCK + tl.arange(0, BLOCK)
        b_x = tl.load(x + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
        b_y = tl.cumsum(b_x, axis=0, reverse=REVERSE) + carry
        tl.store(y + i_t * D + o, b_y.to(y.dtype.element_ty), mask=o < D)
        carry += tl.sum(b_x, axis=0)


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def cummax_kernel(x, y, D, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    carry = float("-inf")
    for start in range(0, D, BLOCK):
        o = start + tl.arange(0, BLOCK)
        b_x = tl.load(x + i_t * D + o, mask=o < D, other=float("-inf")).to(tl.float32)
        b_y = tl.maximum(tl.associative_scan(b_x, 0, larger), carry)
        tl.store(y + i_t * D + o, b_y.to(y.dtype.element_ty), mask=o < D)
        carry = tl.maximum(carry, tl.max(b_x, axis=0))


@triton.jit
def add_exponentials(max_a, sum_a, max_b, sum_b):
    """Combine sums of exponentials that are divided by the exponentials of their maxima."""
    m = tl.maximum(max_a, max_b)
    return m, sum_a * tl.exp(max_a - m) + sum_b * tl.exp(max_b - m)


@triton.jit
def log_cumsum_exp_kernel(x, y, lse, D, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    b_one = tl.full((BLOCK,), 1.0, dtype=tl.float32)
    b_max, b_sum = tl.associative_scan((b_x, b_one), 0, add_exponentials)
    b_y = b_max + tl.log(b_sum)
    tl.store(y + i_t * D + o, b_y.to(y.dtype.element_ty), mask=o < D)
    tl.store(lse + i_t * D + o, b_y, mask=o < D)


@triton.jit
def log_cumsum_exp_grad_kernel(x, lse, dy, dx, D, BLOCK: tl.constexpr):
    """dx[i] is the sum of dy[j] * exp(x[i] - y[j]) over j >= i."""
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    b_lse = tl.load(lse + i_t * D + o, mask=o < D, other=0.0)
    b_dy = tl.load(dy + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    sees = (o[:, None] <= o[None, :]) & (o[None, :] < D)
    b_exponent = tl.where(sees, b_x[:, None] - b_lse[None, :], float("-inf"))
    b_dx = tl.sum(tl.exp(b_exponent) * b_dy[None, :], axis=1)
    tl.store(dx + i_t * D + o, b_dx.to(dx.dtype.element_ty), mask=o < D)


@triton.jit
def compose(a_first, b_first, a_second, b_second):
    """Compose two steps h -> a * h + b."""
    return a_first * a_second, a_second * b_first + b_second


@triton.jit
def recurrence_kernel(a, b, h, kept, T, D, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr):
    """h[t] = a[t] * h[t-1] + b[t], by an associative scan along the tokens of one sequence."""
    first = tl.program_id(1).to(tl.int64) * T * D
    o_t, o_d = tl.arange(0, BLOCK), tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    at = first + o_t[:, None] * D + o_d[None, :]
    mask = (o_t[:, None] < T) & (o_d[None, :] < D)
    b_a = tl.load(a + at, mask=mask, other=1.0).to(tl.float32)
    b_b = tl.load(b + at, mask=mask, other=0.0).to(tl.float32)
    _b_decay, b_h = tl.associative_scan((b_a, b_b), 0, compose)
    tl.store(h + at, b_h.to(h.dtype.element_ty), mask=mask)
    tl.store(kept + at, b_h, mask=mask)


@triton.jit
def recurrence_grad_kernel(a, h, dh, da, db, T, D, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr):
    """db[t] = dh[t] + a[t+1] * db[t+1], and da[t] = db[t] * h[t-1]."""
    first = tl.program_id(1).to(tl.int64) * T * D
    o_t, o_d = tl.arange(0, BLOCK), tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    at = first + o_t[:, None] * D + o_d[None, :]
    mask = (o_t[:, None] < T) & (o_d[None, :] < D)
    b_next = tl.load(a + at + D, mask=mask & (o_t[:, None] < T - 1), other=0.0).to(tl.float32)
    b_dh = tl.load(dh + at, mask=mask, other=0.0).to(tl.float32)
    _b_decay, b_db = tl.associative_scan((b_next, b_dh), 0, compose, reverse=True)
    b_before = tl.load(h + at - D, mask=mask & (o_t[:, None] > 0), other=0.0)
    tl.store(da + at, (b_db * b_before).to(da.dtype.element_ty), mask=mask)
    tl.store(db + at, b_db.to(db.dtype.element_ty), mask=mask)


@triton.jit
def moving_average_kernel(x, y, T, D, decay, BLOCK_D: tl.constexpr):
    """y[t] = decay * y[t-1] + (1 - decay) * x[t], token after token."""
    first = tl.program_id(1).to(tl.int64) * T * D
    o_d = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    b_y = tl.zeros((BLOCK_D,), dtype=tl.float32)
    for t in range(T):
        at = first + t * D + o_d
        b_x = tl.load(x + at, mask=o_d < D, other=0.0).to(tl.float32)
        b_y = decay * b_y + (1.0 - decay) * b_x
        tl.store(y + at, b_y.to(y.dtype.element_ty), mask=o_d < D)


@triton.jit
def moving_average_grad_kernel(dy, dx, T, D, decay, BLOCK_D: tl.constexpr):
    first = tl.program_id(1).to(tl.int64) * T * D
    o_d = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    b_sum = tl.zeros((BLOCK_D,), dtype=tl.float32)
    for i in range(T):
        at = first + (T - 1 - i) * D + o_d
        b_dy = tl.load(dy + at, mask=o_d < D, other=0.0).to(tl.float32)
        b_sum = decay * b_sum + b_dy
        tl.store(dx + at, ((1.0 - decay) * b_sum).to(dx.dtype.element_ty), mask=o_d < D)


class CumSum(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        cumsum_kernel[(x.shape[0],)](x, y, x.shape[1], REVERSE=False, BLOCK=BLOCK)
        return y

    @staticmethod
    def backward(_ctx: Any, dy: torch.Tensor) -> torch.Tensor:
        dy = dy.contiguous()
        dx = torch.empty_like(dy)
        cumsum_kernel[(dy.shape[0],)](dy, dx, dy.shape[1], REVERSE=True, BLOCK=BLOCK)
        return dx


class LogCumSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y, lse = torch.empty_like(x), torch.empty(x.shape, dtype=torch.float32, device=x.device)
        block = triton.next_power_of_2(x.shape[1])
        log_cumsum_exp_kernel[(x.shape[0],)](x, y, lse, x.shape[1], BLOCK=block)
        ctx.save_for_backward(x, lse)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> torch.Tensor:
        x, lse = ctx.saved_tensors
        dx = torch.empty_like(x)
        block = triton.next_power_of_2(x.shape[1])
        log_cumsum_exp_grad_kernel[(x.shape[0],)](x, lse, dy.contiguous(), dx, x.shape[1], BLOCK=block)
        return dx


class Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = a.contiguous(), b.contiguous()
        batch, tokens, channels = a.shape
        h, kept = torch.empty_like(b), torch.empty(b.shape, dtype=torch.float32, device=b.device)
        ctx.grid = (triton.cdiv(channels, BLOCK_D), batch)
        ctx.blocks = {"BLOCK": triton.next_power_of_2(tokens), "BLOCK_D": BLOCK_D}
        recurrence_kernel[ctx.grid](a, b, h, kept, tokens, channels, **ctx.blocks)
        ctx.save_for_backward(a, kept)
        return h

    @staticmethod
    def backward(ctx: Any, dh: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, h = ctx.saved_tensors
        _, tokens, channels = a.shape
        da, db = torch.empty_like(a), torch.empty_like(a)
        recurrence_grad_kernel[ctx.grid](a, h, dh.contiguous(), da, db, tokens, channels, **ctx.blocks)
        return da, db


class MovingAverage(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, decay: float) -> torch.Tensor:
        x = x.contiguous()
        batch, tokens, channels = x.shape
        y = torch.empty_like(x)
        grid = (triton.cdiv(channels, BLOCK_D), batch)
        moving_average_kernel[grid](x, y, tokens, channels, decay, BLOCK_D=BLOCK_D)
        ctx.decay = decay
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None]:
        dy = dy.contiguous()
        batch, tokens, channels = dy.shape
        dx = torch.empty_like(dy)
        grid = (triton.cdiv(channels, BLOCK_D), batch)
        moving_average_grad_kernel[grid](dy, dx, tokens, channels, ctx.decay, BLOCK_D=BLOCK_D)
        return dx, None


def cumsum(x: torch.Tensor) -> torch.Tensor:
    return CumSum.apply(x)


def cummax(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    cummax_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=BLOCK)
    return y


def log_cumsum_exp(x: torch.Tensor) -> torch.Tensor:
    return LogCumSumExp.apply(x)


def recurrence(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return Recurrence.apply(a, b)


def moving_average(x: torch.Tensor, decay: float) -> torch.Tensor:
    return MovingAverage.apply(x, decay)
