"""Norms of rows: layer norm in two passes and by Welford, RMS norm, group norm, and rows of length one."""

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 128
"""The columns that Welford's kernel reads at once."""
PROGRAMS = 8
"""The programs of a gradient of weights: each sums the rows that it visits, in a stride of the grid."""


@triton.jit
def layer_norm_kernel(x, weight, bias, y, mean, rstd, D, eps, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    b_mean = tl.sum(b_x, axis=0) / D
    b_centred = tl.where(o < D, b_x - b_mean, 0.0)
    b_rstd = tl.rsqrt(tl.sum(b_centred * b_centred, axis=0) / D + eps)
    b_w = tl.load(weight + o, mask=o < D, other=0.0).to(tl.float32)
    b_b = tl.load(bias + o, mask=o < D, other=0.0).to(tl.float32)
    tl.store(y + i_t * D + o, (b_centred * b_rstd * b_w + b_b).to(y.dtype.element_ty), mask=o < D)
    tl.store(mean + i_t, b_mean)
    tl.store(rstd + i_t, b_rstd)


@triton.jit
def combine_welford(mean_a, square_a, count_a, mean_b, square_b, count_b):
    """Combine means, sums of squared distances from them, and counts, of two sets."""
    count = count_a + count_b
    share = tl.where(count == 0, 0.0, count_b / tl.maximum(count, 1.0))
    delta = mean_b - mean_a
    return mean_a + delta * share, square_a + square_b + delta * delta * count_a * share, count


@triton.jit
def welford_kernel(x, weight, bias, y, mean, rstd, D, eps, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_mean = tl.zeros((BLOCK,), dtype=tl.float32)
    b_square = tl.zeros((BLOCK,), dtype=tl.float32)
    b_count = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, D, BLOCK):
        mask = start + o < D
        b_x = tl.load(x + i_t * D + start + o, mask=mask, other=0.0).to(tl.float32)
        b_count_new = b_count + mask.to(tl.float32)
        b_delta = tl.where(mask, b_x - b_mean, 0.0)
        b_mean += b_delta / tl.maximum(b_count_new, 1.0)
        b_square += b_delta * tl.where(mask, b_x - b_mean, 0.0)
        b_count = b_count_new
    s_mean, s_square, _count = tl.reduce((b_mean, b_square, b_count), 0, combine_welford)
    s_rstd = tl.rsqrt(s_square / D + eps)
    for start in range(0, D, BLOCK):
        mask = start + o < D
        b_x = tl.load(x + i_t * D + start + o, mask=mask, other=0.0).to(tl.float32)
        b_w = tl.load(weight + start + o, mask=mask, other=0.0).to(tl.float32)
        b_b = tl.load(bias + start + o, mask=mask, other=0.0).to(tl.float32)
        b_y = (b_x - s_mean) * s_rstd * b_w + b_b
        tl.store(y + i_t * D + start + o, b_y.to(y.dtype.element_ty), mask=mask)
    tl.store(mean + i_t, s_mean)
    tl.store(rstd + i_t, s_rstd)


@triton.jit
def layer_norm_grad_kernel(x, weight, mean, rstd, dy, dx, D, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_rstd = tl.load(rstd + i_t)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    b_hat = tl.where(o < D, (b_x - tl.load(mean + i_t)) * b_rstd, 0.0)
    b_w = tl.load(weight + o, mask=o < D, other=0.0).to(tl.float32)
    b_dhat = tl.load(dy + i_t * D + o, mask=o < D, other=0.0).to(tl.float32) * b_w
    b_dx = (b_dhat - tl.sum(b_dhat, axis=0) / D - b_hat * (tl.sum(b_dhat * b_hat, axis=0) / D)) * b_rstd
    tl.store(dx + i_t * D + o, b_dx.to(dx.dtype.element_ty), mask=o < D)


@triton.jit
def affine_grad_kernel(x, mean, rstd, dy, dw, db, T, D, CENTRED: tl.constexpr, BLOCK: tl.constexpr):
    """Store the sums over this program's rows of dy times the normed x, and of dy."""
    i_p = tl.program_id(0)
    o = tl.arange(0, BLOCK)
    b_dw = tl.zeros((BLOCK,), dtype=tl.float32)
    b_db = tl.zeros((BLOCK,), dtype=tl.float32)
    for i_t in range(i_p, T, tl.num_programs(0)):
        row = i_t.to(tl.int64) * D
        b_x = tl.load(x + row + o, mask=o < D, other=0.0).to(tl.float32)
        b_dy = tl.load(dy + row + o, mask=o < D, other=0.0).to(tl.float32)
        if CENTRED:
            b_x -= tl.load(mean + i_t)
            b_db += b_dy
        b_dw += b_dy * b_x * tl.load(rstd + i_t)
    tl.store(dw + i_p * D + o, b_dw, mask=o < D)
    if CENTRED:
        tl.store(db + i_p * D + o, b_db, mask=o < D)


@triton.jit
def rms_norm_kernel(x, weight, y, rstd, D, eps, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    b_rstd = tl.rsqrt(tl.sum(b_x * b_x, axis=0) / D + eps)
    b_w = tl.load(weight + o, mask=o < D, other=0.0).to(tl.float32)
    tl.store(y + i_t * D + o, (b_x * b_rstd * b_w).to(y.dtype.element_ty), mask=o < D)
    tl.store(rstd + i_t, b_rstd)


@triton.jit
def rms_norm_grad_kernel(x, weight, rstd, dy, dx, D, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_rstd = tl.load(rstd + i_t)
    b_hat = tl.load(x + i_t * D + o, mask=o < D, other=0.0).to(tl.float32) * b_rstd
    b_w = tl.load(weight + o, mask=o < D, other=0.0).to(tl.float32)
    b_dhat = tl.load(dy + i_t * D + o, mask=o < D, other=0.0).to(tl.float32) * b_w
    b_dx = (b_dhat - b_hat * (tl.sum(b_dhat * b_hat, axis=0) / D)) * b_rstd
    tl.store(dx + i_t * D + o, b_dx.to(dx.dtype.element_ty), mask=o < D)


@triton.jit
def group_norm_kernel(x, weight, bias, y, mean, rstd, C, L, G, eps, BLOCK: tl.constexpr):
    """Norm the C * L elements of one group of one sample."""
    i_g = tl.program_id(0).to(tl.int64)
    first_channel = (i_g % G) * C
    size = C * L
    o = tl.arange(0, BLOCK)
    b_sum = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, size, BLOCK):
        b_sum += tl.load(x + i_g * size + start + o, mask=start + o < size, other=0.0).to(tl.float32)
    s_mean = tl.sum(b_sum, axis=0) / size
    b_square = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, size, BLOCK):
        mask = start + o < size
        b_x = tl.load(x + i_g * size + start + o, mask=mask, other=0.0).to(tl.float32)
        b_centred = tl.where(mask, b_x - s_mean, 0.0)
        b_square += b_centred * b_centred
    s_rstd = tl.rsqrt(tl.sum(b_square, axis=0) / size + eps)
    for start in range(0, size, BLOCK):
        mask = start + o < size
        channel = first_channel + (start + o) // L
        b_x = tl.load(x + i_g * size + start + o, mask=mask, other=0.0).to(tl.float32)
        b_w = tl.load(weight + channel, mask=mask, other=0.0).to(tl.float32)
        b_b = tl.load(bias + channel, mask=mask, other=0.0).to(tl.float32)
        b_y = (b_x - s_mean) * s_rstd * b_w + b_b
        tl.store(y + i_g * size + start + o, b_y.to(y.dtype.element_ty), mask=mask)
    tl.store(mean + i_g, s_mean)
    tl.store(rstd + i_g, s_rstd)


@triton.jit
def group_norm_grad_kernel(x, weight, mean, rstd, dy, dx, dw, db, C, L, G, BLOCK: tl.constexpr):
    """Compute dx of one group of one sample, and this sample's part of the gradients of weight and bias."""
    i_g = tl.program_id(0).to(tl.int64)
    first_channel = (i_g % G) * C
    size = C * L
    s_mean = tl.load(mean + i_g)
    s_rstd = tl.load(rstd + i_g)
    o = tl.arange(0, BLOCK)
    s_dhat = 0.0
    s_dhat_hat = 0.0
    for c in range(C):
        w = tl.load(weight + first_channel + c).to(tl.float32)
        s_dw = 0.0
        s_db = 0.0
        for start in range(0, L, BLOCK):
            mask = start + o < L
            at = i_g * size + c * L + start + o
            b_x = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
            b_dy = tl.load(dy + at, mask=mask, other=0.0).to(tl.float32)
            s_dw += tl.sum(b_dy * (b_x - s_mean) * s_rstd, axis=0)
            s_db += tl.sum(b_dy, axis=0)
        s_dhat += s_db * w
        s_dhat_hat += s_dw * w
        tl.store(dw + i_g * C + c, s_dw)
        tl.store(db + i_g * C + c, s_db)
    for start in range(0, size, BLOCK):
        mask = start + o < size
        channel = first_channel + (start + o) // L
        b_x = tl.load(x + i_g * size + start + o, mask=mask, other=0.0).to(tl.float32)
        b_dy = tl.load(dy + i_g * size + start + o, mask=mask, other=0.0).to(tl.float32)
        b_w = tl.load(weight + channel, mask=mask, other=0.0).to(tl.float32)
        b_hat = (b_x - s_mean) * s_rstd
        b_dx = (b_dy * b_w - s_dhat / size - b_hat * (s_dhat_hat / size)) * s_rstd
        tl.store(dx + i_g * size + start + o, b_dx.to(dx.dtype.element_ty), mask=mask)


@triton.jit
def l2_norm_kernel(x, y, rnorm, D, eps, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    b_rnorm = 1.0 / tl.sqrt(tl.sum(b_x * b_x, axis=0) + eps)
    tl.store(y + i_t * D + o, (b_x * b_rnorm).to(y.dtype.element_ty), mask=o < D)
    tl.store(rnorm + i_t, b_rnorm)


@triton.jit
def l2_norm_grad_kernel(x, rnorm, dy, dx, D, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_rnorm = tl.load(rnorm + i_t)
    b_y = tl.load(x + i_t * D + o, mask=o < D, other=0.0).to(tl.float32) * b_rnorm
    b_dy = tl.load(dy + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    b_dx = (b_dy - b_y * tl.sum(b_dy * b_y, axis=0)) * b_rnorm
    tl.store(dx + i_t * D + o, b_dx.to(dx.dtype.element_ty), mask=o < D)


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        eps: float,
        welford: bool,  # noqa: FBT001 - autograd passes by position
    ) -> torch.Tensor:
        x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
        y = torch.empty_like(x)
        rows, columns = x.shape
        mean, rstd = (torch.empty(rows, dtype=torch.float32, device=x.device) for _ in range(2))
        kernel, block = (welford_kernel, BLOCK) if welford else (layer_norm_kernel, triton.next_power_of_2(columns))
        kernel[(rows,)](x, weight, bias, y, mean, rstd, columns, eps, BLOCK=block)
        ctx.save_for_backward(x, weight, mean, rstd)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None, None]:
        x, weight, mean, rstd = ctx.saved_tensors
        dy, dx = dy.contiguous(), torch.empty_like(x)
        rows, columns = x.shape
        block = triton.next_power_of_2(columns)
        layer_norm_grad_kernel[(rows,)](x, weight, mean, rstd, dy, dx, columns, BLOCK=block)
        programs = min(rows, PROGRAMS)
        dw, db = (torch.empty(programs, columns, dtype=torch.float32, device=x.device) for _ in range(2))
        affine_grad_kernel[(programs,)](x, mean, rstd, dy, dw, db, rows, columns, CENTRED=True, BLOCK=block)
        return dx, dw.sum(0).to(weight.dtype), db.sum(0).to(weight.dtype), None, None


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        x, weight = x.contiguous(), weight.contiguous()
        y = torch.empty_like(x)
        rows, columns = x.shape
        rstd = torch.empty(rows, dtype=torch.float32, device=x.device)
        rms_norm_kernel[(rows,)](x, weight, y, rstd, columns, eps, BLOCK=triton.next_power_of_2(columns))
        ctx.save_for_backward(x, weight, rstd)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        x, weight, rstd = ctx.saved_tensors
        dy, dx = dy.contiguous(), torch.empty_like(x)
        rows, columns = x.shape
        block = triton.next_power_of_2(columns)
        rms_norm_grad_kernel[(rows,)](x, weight, rstd, dy, dx, columns, BLOCK=block)
        programs = min(rows, PROGRAMS)
        dw = torch.empty(programs, columns, dtype=torch.float32, device=x.device)
        affine_grad_kernel[(programs,)](x, rstd, rstd, dy, dw, dw, rows, columns, CENTRED=False, BLOCK=block)
        return dx, dw.sum(0).to(weight.dtype), None


class GroupNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, groups: int, eps: float
    ) -> torch.Tensor:
        x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
        y = torch.empty_like(x)
        batch, channels, length = x.shape
        mean, rstd = (torch.empty(batch * groups, dtype=torch.float32, device=x.device) for _ in range(2))
        sizes = (channels // groups, length, groups)
        group_norm_kernel[(batch * groups,)](x, weight, bias, y, mean, rstd, *sizes, eps, BLOCK=BLOCK)
        ctx.save_for_backward(x, weight, mean, rstd)
        ctx.groups = groups
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None, None]:
        x, weight, mean, rstd = ctx.saved_tensors
        dy, dx = dy.contiguous(), torch.empty_like(x)
        batch, channels, length = x.shape
        groups = ctx.groups
        dw, db = (torch.empty(batch, channels, dtype=torch.float32, device=x.device) for _ in range(2))
        sizes = (channels // groups, length, groups)
        group_norm_grad_kernel[(batch * groups,)](x, weight, mean, rstd, dy, dx, dw, db, *sizes, BLOCK=BLOCK)
        return dx, dw.sum(0).to(weight.dtype), db.sum(0).to(weight.dtype), None, None


class L2Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, eps: float) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        rows, columns = x.shape
        rnorm = torch.empty(rows, dtype=torch.float32, device=x.device)
        l2_norm_kernel[(rows,)](x, y, rnorm, columns, eps, BLOCK=triton.next_power_of_2(columns))
        ctx.save_for_backward(x, rnorm)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None]:
        x, rnorm = ctx.saved_tensors
        dx = torch.empty_like(x)
        rows, columns = x.shape
        l2_norm_grad_kernel[(rows,)](x, rnorm, dy.contiguous(), dx, columns, BLOCK=triton.next_power_of_2(columns))
        return dx, None


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float, *, welford: bool = False
) -> torch.Tensor:
    return LayerNorm.apply(x, weight, bias, eps, welford)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return RMSNorm.apply(x, weight, eps)


def group_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, groups: int, eps: float) -> torch.Tensor:
    return GroupNorm.apply(x, weight, bias, groups, eps)


def l2_norm(x: torch.Tensor, eps: float) -> torch.Tensor:
    return L2Norm.apply(x, eps)
