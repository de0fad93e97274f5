"""Quantisation of rows by their largest absolute value, to 8-bit integers and to 8-bit floats, and back."""

from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice

BLOCK = 32
"""The extent of tiles along M, N and K."""
LEAST_FOR_E4M3 = (8, 9)
"""The least compute capability with 8-bit floats of three mantissa bits."""


@triton.jit
def scale_of(b_x, largest, LEAST: tl.constexpr):
    return tl.maximum(tl.max(tl.abs(b_x), axis=0), LEAST) / largest


@triton.jit
def quantise_kernel(x, q, scale, D, LEAST: tl.constexpr, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    s = scale_of(b_x, 127.0, LEAST)
    tl.store(q + i_t * D + o, libdevice.rint(b_x / s).to(tl.int8), mask=o < D)
    tl.store(scale + i_t, s)


@triton.jit
def dequantise_kernel(q, scale, y, D, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_y = tl.load(q + i_t * D + o, mask=o < D, other=0).to(tl.float32) * tl.load(scale + i_t).to(tl.float32)
    tl.store(y + i_t * D + o, b_y.to(y.dtype.element_ty), mask=o < D)


@triton.jit
def fake_quantise_kernel(x, scale, y, D, BLOCK: tl.constexpr):
    """Round x to multiples of the row's scale, at most 127 of them."""
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    s = tl.load(scale + i_t).to(tl.float32)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    b_q = tl.minimum(tl.maximum(libdevice.rint(b_x / s), -127.0), 127.0)
    tl.store(y + i_t * D + o, (b_q * s).to(y.dtype.element_ty), mask=o < D)


@triton.jit
def fake_quantise_grad_kernel(x, scale, dy, dx, D, BLOCK: tl.constexpr):
    """Pass the gradient straight through where x is not cut off."""
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    s = tl.load(scale + i_t).to(tl.float32)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    b_dy = tl.load(dy + i_t * D + o, mask=o < D, other=0.0)
    inside = tl.abs(libdevice.rint(b_x / s)) <= 127.0
    tl.store(dx + i_t * D + o, tl.where(inside, b_dy, 0.0).to(dx.dtype.element_ty), mask=o < D)


@triton.jit
def float8_kernel(x, y, D, largest, LEAST: tl.constexpr, E4M3: tl.constexpr, BLOCK: tl.constexpr):
    """Round each row, scaled to the largest 8-bit float, and scale it back."""
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    s = scale_of(b_x, largest, LEAST)
    b_q = (b_x / s).to(tl.float8e4nv) if E4M3 else (b_x / s).to(tl.float8e5)
    tl.store(y + i_t * D + o, (b_q.to(tl.float32) * s).to(y.dtype.element_ty), mask=o < D)


@triton.jit
def int8_product_kernel(a, b, scale_a, scale_b, c, M, N, K, BLOCK: tl.constexpr):
    """Multiply 8-bit integers, sum in 32 bits, and scale rows and columns of the result."""
    o_m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    o_n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    b_c = tl.zeros((BLOCK, BLOCK), dtype=tl.int32)
    for start in range(0, K, BLOCK):
        o_k = start + tl.arange(0, BLOCK)
        b_a = tl.load(a + o_m[:, None] * K + o_k[None, :], mask=(o_m[:, None] < M) & (o_k[None, :] < K), other=0)
        b_b = tl.load(b + o_k[:, None] * N + o_n[None, :], mask=(o_k[:, None] < K) & (o_n[None, :] < N), other=0)
        b_c += tl.dot(b_a, b_b, out_dtype=tl.int32)
    s_a = tl.load(scale_a + o_m, mask=o_m < M, other=0.0).to(tl.float32)
    s_b = tl.load(scale_b + o_n, mask=o_n < N, other=0.0).to(tl.float32)
    b_y = b_c.to(tl.float32) * s_a[:, None] * s_b[None, :]
    mask = (o_m[:, None] < M) & (o_n[None, :] < N)
    tl.store(c + o_m[:, None] * N + o_n[None, :], b_y.to(c.dtype.element_ty), mask=mask)


class FakeQuantise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        x, scale = x.contiguous(), scale.contiguous()
        y = torch.empty_like(x)
        rows, columns = x.shape
        fake_quantise_kernel[(rows,)](x, scale, y, columns, BLOCK=triton.next_power_of_2(columns))
        ctx.save_for_backward(x, scale)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None]:
        x, scale = ctx.saved_tensors
        dx = torch.empty_like(x)
        rows, columns = x.shape
        block = triton.next_power_of_2(columns)
        fake_quantise_grad_kernel[(rows,)](x, scale, dy.contiguous(), dx, columns, BLOCK=block)
        return dx, None


def quantise(x: torch.Tensor, least: float) -> tuple[torch.Tensor, torch.Tensor]:
    x = x.contiguous()
    rows, columns = x.shape
    q = torch.empty(x.shape, dtype=torch.int8, device=x.device)
    scale = torch.empty(rows, dtype=torch.float32, device=x.device)
    quantise_kernel[(rows,)](x, q, scale, columns, LEAST=least, BLOCK=triton.next_power_of_2(columns))
    return q, scale


def dequantise(q: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    q, scale = q.contiguous(), scale.contiguous()
    y = torch.empty(q.shape, dtype=scale.dtype, device=q.device)
    rows, columns = q.shape
    dequantise_kernel[(rows,)](q, scale, y, columns, BLOCK=triton.next_power_of_2(columns))
    return y


def fake_quantise(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return FakeQuantise.apply(x, scale)


def through_float8(x: torch.Tensor, dtype: torch.dtype, least: float) -> torch.Tensor:
    """Return x rounded to an 8-bit float type, scaled by rows.

    Raises:
        NotImplementedError: the GPU is too old for the type.
    """
    is_e4m3 = dtype == torch.float8_e4m3fn
    if is_e4m3 and torch.cuda.get_device_capability(x.device) < LEAST_FOR_E4M3:
        raise NotImplementedError("float8_e4m3fn needs compute capability 8.9")
    x = x.contiguous()
    y = torch.empty_like(x)
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    float8_kernel[(rows,)](x, y, columns, torch.finfo(dtype).max, LEAST=least, E4M3=is_e4m3, BLOCK=block)
    return y


def product(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> torch.Tensor:
    a, b = a.contiguous(), b.contiguous()
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty(m, n, dtype=scale_a.dtype, device=a.device)
    grid = (triton.cdiv(m, BLOCK), triton.cdiv(n, BLOCK))
    int8_product_kernel[grid](a, b, scale_a.contiguous(), scale_b.contiguous(), c, m, n, k, BLOCK=BLOCK)
    return c
