"""Windows along the last axis: maxima and means, causal convolution of channels, and interpolation."""

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 128


@triton.jit
def max_pool_kernel(x, y, index, L, LENGTH, STRIDE, WINDOW: tl.constexpr, BLOCK: tl.constexpr):
    """Store the maximum of each window and its place; of equal elements the first one counts."""
    i_c = tl.program_id(0).to(tl.int64)
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    b_y = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    b_at = o * STRIDE
    for i in tl.static_range(WINDOW):
        at = o * STRIDE + i
        b_x = tl.load(x + i_c * L + at, mask=o < LENGTH, other=float("-inf")).to(tl.float32)
        b_at = tl.where(b_x > b_y, at, b_at)
        b_y = tl.maximum(b_y, b_x)
    tl.store(y + i_c * LENGTH + o, b_y.to(y.dtype.element_ty), mask=o < LENGTH)
    tl.store(index + i_c * LENGTH + o, b_at.to(tl.int64), mask=o < LENGTH)


@triton.jit
def max_pool_grad_kernel(dy, index, dx, L, LENGTH, STRIDE, WINDOW: tl.constexpr, BLOCK: tl.constexpr):
    """Sum the gradients of the windows whose maximum is here."""
    i_c = tl.program_id(0).to(tl.int64)
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    b_dx = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in tl.static_range(WINDOW):
        first = o - i
        window = tl.maximum(first, 0) // STRIDE
        covers = (first >= 0) & (first % STRIDE == 0) & (window < LENGTH) & (o < L)
        b_at = tl.load(index + i_c * LENGTH + window, mask=covers, other=-1)
        b_dy = tl.load(dy + i_c * LENGTH + window, mask=covers, other=0.0).to(tl.float32)
        b_dx += tl.where(b_at == o, b_dy, 0.0)
    tl.store(dx + i_c * L + o, b_dx.to(dx.dtype.element_ty), mask=o < L)


@triton.jit
def mean_pool_kernel(x, y, H, W, HEIGHT, WIDTH, WINDOW: tl.constexpr, BLOCK: tl.constexpr):
    """Average square windows that do not overlap."""
    i_c = tl.program_id(0).to(tl.int64)
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = o < HEIGHT * WIDTH
    o_h, o_w = o // WIDTH, o % WIDTH
    b_sum = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in tl.static_range(WINDOW):
        for j in tl.static_range(WINDOW):
            at = (o_h * WINDOW + i) * W + o_w * WINDOW + j
            b_sum += tl.load(x + i_c * H * W + at, mask=mask, other=0.0).to(tl.float32)
    b_y = b_sum / (WINDOW * WINDOW)
    tl.store(y + i_c * HEIGHT * WIDTH + o, b_y.to(y.dtype.element_ty), mask=mask)


@triton.jit
def mean_pool_grad_kernel(dy, dx, H, W, HEIGHT, WIDTH, WINDOW: tl.constexpr, BLOCK: tl.constexpr):
    i_c = tl.program_id(0).to(tl.int64)
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    o_h, o_w = o // W // WINDOW, o % W // WINDOW
    inside = (o < H * W) & (o_h < HEIGHT) & (o_w < WIDTH)
    b_dy = tl.load(dy + (i_c * HEIGHT + o_h) * WIDTH + o_w, mask=inside, other=0.0).to(tl.float32)
    tl.store(dx + i_c * H * W + o, (b_dy / (WINDOW * WINDOW)).to(dx.dtype.element_ty), mask=o < H * W)


@triton.jit
def convolution_kernel(x, weight, bias, y, T, D, WINDOW: tl.constexpr, BLOCK: tl.constexpr):
    """y[t] = bias + sum of weight[i] * x[t - WINDOW + 1 + i], each channel by itself."""
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    t = i_t % T
    b_y = tl.load(bias + o, mask=o < D, other=0.0).to(tl.float32)
    for i in tl.static_range(WINDOW):
        back = WINDOW - 1 - i
        b_x = tl.load(x + (i_t - back) * D + o, mask=(o < D) & (t >= back), other=0.0).to(tl.float32)
        b_y += b_x * tl.load(weight + o * WINDOW + i, mask=o < D, other=0.0).to(tl.float32)
    tl.store(y + i_t * D + o, b_y.to(y.dtype.element_ty), mask=o < D)


@triton.jit
def convolution_grad_kernel(weight, dy, dx, T, D, WINDOW: tl.constexpr, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    t = i_t % T
    b_dx = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in tl.static_range(WINDOW):
        ahead = WINDOW - 1 - i
        b_dy = tl.load(dy + (i_t + ahead) * D + o, mask=(o < D) & (t + ahead < T), other=0.0).to(tl.float32)
        b_dx += b_dy * tl.load(weight + o * WINDOW + i, mask=o < D, other=0.0).to(tl.float32)
    tl.store(dx + i_t * D + o, b_dx.to(dx.dtype.element_ty), mask=o < D)


@triton.jit
def convolution_weight_kernel(x, dy, dw, db, T, D, WINDOW: tl.constexpr, BLOCK: tl.constexpr):
    """Add one sequence's part to the gradients of weight and bias, which hold zeros at first."""
    first = tl.program_id(0).to(tl.int64) * T
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    for i in tl.static_range(WINDOW):
        back = WINDOW - 1 - i
        b_dw = tl.zeros((BLOCK,), dtype=tl.float32)
        for t in range(back, T):
            b_dy = tl.load(dy + (first + t) * D + o, mask=o < D, other=0.0).to(tl.float32)
            b_dw += b_dy * tl.load(x + (first + t - back) * D + o, mask=o < D, other=0.0).to(tl.float32)
        tl.atomic_add(dw + o * WINDOW + i, b_dw, mask=o < D, sem="relaxed")
    b_db = tl.zeros((BLOCK,), dtype=tl.float32)
    for t in range(T):
        b_db += tl.load(dy + (first + t) * D + o, mask=o < D, other=0.0).to(tl.float32)
    tl.atomic_add(db + o, b_db, mask=o < D, sem="relaxed")


@triton.jit
def interpolation_kernel(x, y, L, LENGTH, BLOCK: tl.constexpr):
    """Stretch a row of L elements to LENGTH, both ends in place."""
    i_c = tl.program_id(0).to(tl.int64)
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    ends = tl.maximum(LENGTH - 1, 1)
    left = o * (L - 1) // ends
    share = (o * (L - 1) % ends).to(tl.float32) / ends
    right = tl.minimum(left + 1, L - 1)
    b_left = tl.load(x + i_c * L + left, mask=o < LENGTH, other=0.0).to(tl.float32)
    b_right = tl.load(x + i_c * L + right, mask=o < LENGTH, other=0.0).to(tl.float32)
    b_y = b_left * (1.0 - share) + b_right * share
    tl.store(y + i_c * LENGTH + o, b_y.to(y.dtype.element_ty), mask=o < LENGTH)


class MaxPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, window: int, stride: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = x.contiguous()
        channels, length = x.shape
        windows = (length - window) // stride + 1
        y = torch.empty(channels, windows, dtype=x.dtype, device=x.device)
        index = torch.empty(channels, windows, dtype=torch.int64, device=x.device)
        ctx.sizes, ctx.constants = (length, windows, stride), {"WINDOW": window, "BLOCK": BLOCK}
        max_pool_kernel[(channels, triton.cdiv(windows, BLOCK))](x, y, index, *ctx.sizes, **ctx.constants)
        ctx.save_for_backward(index)
        ctx.mark_non_differentiable(index)
        return y, index

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor, _dindex: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (index,) = ctx.saved_tensors
        channels, length = dy.shape[0], ctx.sizes[0]
        dx = torch.empty(channels, length, dtype=dy.dtype, device=dy.device)
        grid = (channels, triton.cdiv(length, BLOCK))
        max_pool_grad_kernel[grid](dy.contiguous(), index, dx, *ctx.sizes, **ctx.constants)
        return dx, None, None


class MeanPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, window: int) -> torch.Tensor:
        x = x.contiguous()
        channels, height, width = x.shape
        ctx.sizes = (height, width, height // window, width // window)
        ctx.constants = {"WINDOW": window, "BLOCK": BLOCK}
        y = torch.empty(channels, *ctx.sizes[2:], dtype=x.dtype, device=x.device)
        grid = (channels, triton.cdiv(y[0].numel(), BLOCK))
        mean_pool_kernel[grid](x, y, *ctx.sizes, **ctx.constants)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None]:
        height, width = ctx.sizes[:2]
        dx = torch.empty(dy.shape[0], height, width, dtype=dy.dtype, device=dy.device)
        grid = (dy.shape[0], triton.cdiv(height * width, BLOCK))
        mean_pool_grad_kernel[grid](dy.contiguous(), dx, *ctx.sizes, **ctx.constants)
        return dx, None


class Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
        batch, tokens, channels = x.shape
        y = torch.empty_like(x)
        ctx.constants = {"WINDOW": weight.shape[1], "BLOCK": BLOCK}
        grid = (batch * tokens, triton.cdiv(channels, BLOCK))
        convolution_kernel[grid](x, weight, bias, y, tokens, channels, **ctx.constants)
        ctx.save_for_backward(x, weight)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x, weight = ctx.saved_tensors
        dy, dx = dy.contiguous(), torch.empty_like(x)
        batch, tokens, channels = x.shape
        blocks = triton.cdiv(channels, BLOCK)
        convolution_grad_kernel[(batch * tokens, blocks)](weight, dy, dx, tokens, channels, **ctx.constants)
        dw = torch.zeros(weight.shape, dtype=torch.float32, device=x.device)
        db = torch.zeros(channels, dtype=torch.float32, device=x.device)
        convolution_weight_kernel[(batch, blocks)](x, dy, dw, db, tokens, channels, **ctx.constants)
        return dx, dw.to(weight.dtype), db.to(weight.dtype)


def max_pool(x: torch.Tensor, window: int, stride: int) -> tuple[torch.Tensor, torch.Tensor]:
    return MaxPool.apply(x, window, stride)


def mean_pool(x: torch.Tensor, window: int) -> torch.Tensor:
    return MeanPool.apply(x, window)


def convolve(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return Convolution.apply(x, weight, bias)


def interpolate(x: torch.Tensor, length: int) -> torch.Tensor:
    x = x.contiguous()
    channels, columns = x.shape
    y = torch.empty(channels, length, dtype=x.dtype, device=x.device)
    interpolation_kernel[(channels, triton.cdiv(length, BLOCK))](x, y, columns, length, BLOCK=BLOCK)
    return y
