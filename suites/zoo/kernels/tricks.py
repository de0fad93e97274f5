"""Tricks with rounding and bits: exp by powers of two, rounding by a large number, sums that keep what rounding drops.

Each computes what its name says, but no operation alone shows it.  Rounding or the bits of a float are part of the
method.
"""

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 256
TILE = 32
"""The extent of tiles along M, N and K."""
LOG2_E = tl.constexpr(1.4426950408889634)
TO_INTEGER = tl.constexpr(12582912.0)
"""1.5 * 2^23: float32 numbers of this size are integers, so a sum with it is rounded to one."""
HALF_OF_1024 = tl.constexpr(0x6400)
"""The bits of 1024 in float16, whose last bits count in ones."""


@triton.jit
def softmax_kernel(x, y, D, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=float("-inf")).to(tl.float32) * LOG2_E
    b_e = tl.exp2(b_x - tl.max(b_x, axis=0))
    tl.store(y + i_t * D + o, (b_e / tl.sum(b_e, axis=0)).to(y.dtype.element_ty), mask=o < D)


@triton.jit
def softmax_grad_kernel(x, dy, dx, D, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=float("-inf")).to(tl.float32) * LOG2_E
    b_e = tl.exp2(b_x - tl.max(b_x, axis=0))
    b_p = b_e / tl.sum(b_e, axis=0)
    b_dy = tl.load(dy + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    b_dx = b_p * (b_dy - tl.sum(b_p * b_dy, axis=0))
    tl.store(dx + i_t * D + o, b_dx.to(dx.dtype.element_ty), mask=o < D)


@triton.jit
def exp_kernel(x, y, SIZE, BLOCK: tl.constexpr):
    """Write x as n * log 2 + r; the exponential of r is a polynomial, and n is added to the exponent's bits."""
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_in = tl.minimum(tl.maximum(b_x, -87.0), 88.0)
    b_n = (b_in * LOG2_E + TO_INTEGER) - TO_INTEGER
    b_r = b_in - b_n * 0.693359375 + b_n * 2.12194440e-4
    b_p = 1.9875691500e-4 * b_r + 1.3981999507e-3
    b_p = b_p * b_r + 8.3334519073e-3
    b_p = b_p * b_r + 4.1665795894e-2
    b_p = b_p * b_r + 1.6666665459e-1
    b_p = b_p * b_r + 5.0000001201e-1
    b_p = b_p * b_r * b_r + b_r + 1.0
    b_bits = b_p.to(tl.int32, bitcast=True) + (b_n.to(tl.int32) << 23)
    b_y = tl.where(b_x < -87.0, 0.0, b_bits.to(tl.float32, bitcast=True))
    tl.store(y + o, b_y.to(y.dtype.element_ty), mask=o < SIZE)


@triton.jit
def round_kernel(x, y, SIZE, step, BLOCK: tl.constexpr):
    """Round to multiples of `step`, ties to even."""
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < SIZE, other=0.0).to(tl.float32) / step
    b_y = ((b_x + TO_INTEGER) - TO_INTEGER) * step
    tl.store(y + o, b_y.to(y.dtype.element_ty), mask=o < SIZE)


@triton.jit
def log1p_kernel(x, y, SIZE, BLOCK: tl.constexpr):
    """log(u) * x / (u - 1) for u = 1 + x: the rounding of u cancels."""
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_u = 1.0 + b_x
    b_y = tl.where(b_u == 1.0, b_x, tl.log(b_u) * (b_x / (b_u - 1.0)))
    tl.store(y + o, b_y.to(y.dtype.element_ty), mask=o < SIZE)


@triton.jit
def compensated_sum_kernel(x, y, D, BLOCK: tl.constexpr):
    """Sum a row in a loop, and carry along what the sums so far have dropped."""
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_sum = tl.zeros((BLOCK,), dtype=tl.float32)
    b_dropped = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, D, BLOCK):
        b_x = tl.load(x + i_t * D + start + o, mask=start + o < D, other=0.0).to(tl.float32) - b_dropped
        b_new = b_sum + b_x
        b_dropped = (b_new - b_sum) - b_x
        b_sum = b_new
    tl.store(y + i_t, tl.sum(b_sum - b_dropped, axis=0))


@triton.jit
def double_sum_kernel(x, y, D, BLOCK: tl.constexpr):
    """Sum a row in float64."""
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_sum = tl.zeros((BLOCK,), dtype=tl.float64)
    for start in range(0, D, BLOCK):
        b_sum += tl.load(x + i_t * D + start + o, mask=start + o < D, other=0.0).to(tl.float64)
    tl.store(y + i_t, tl.sum(b_sum, axis=0).to(tl.float32))


@triton.jit
def largest_kernel(x, bits, SIZE, BLOCK: tl.constexpr):
    """Raise `bits`, those of a float32 number, to the largest absolute value, as integers."""
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < SIZE, other=0.0).to(tl.float32)
    tl.atomic_max(bits, tl.max(tl.abs(b_x), axis=0).to(tl.int32, bitcast=True), sem="relaxed")


@triton.jit
def unpack_kernel(packed, scale, y, D, BLOCK: tl.constexpr):
    """Unpack two 4-bit integers of each byte: below the bits of 1024, and 1032 is subtracted."""
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_byte = tl.load(packed + i_t * D + o, mask=o < D, other=0).to(tl.int16)
    s = tl.load(scale + i_t).to(tl.float32)
    b_low = ((b_byte & 15) | HALF_OF_1024).to(tl.float16, bitcast=True) - 1032.0
    b_high = (((b_byte >> 4) & 15) | HALF_OF_1024).to(tl.float16, bitcast=True) - 1032.0
    tl.store(y + i_t * 2 * D + 2 * o, (b_low.to(tl.float32) * s).to(y.dtype.element_ty), mask=o < D)
    tl.store(y + i_t * 2 * D + 2 * o + 1, (b_high.to(tl.float32) * s).to(y.dtype.element_ty), mask=o < D)


@triton.jit
def split_product_kernel(a, b, c, M, N, K, TILE: tl.constexpr):
    """Multiply float32 matrices as bfloat16: each number is a sum of three, and six products of them count."""
    o_m = tl.program_id(0) * TILE + tl.arange(0, TILE)
    o_n = tl.program_id(1) * TILE + tl.arange(0, TILE)
    b_c = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, K, TILE):
        o_k = start + tl.arange(0, TILE)
        b_a = tl.load(a + o_m[:, None] * K + o_k[None, :], mask=(o_m[:, None] < M) & (o_k[None, :] < K), other=0.0)
        b_b = tl.load(b + o_k[:, None] * N + o_n[None, :], mask=(o_k[:, None] < K) & (o_n[None, :] < N), other=0.0)
        a_1 = b_a.to(tl.bfloat16)
        a_2 = (b_a - a_1.to(tl.float32)).to(tl.bfloat16)
        a_3 = (b_a - a_1.to(tl.float32) - a_2.to(tl.float32)).to(tl.bfloat16)
        b_1 = b_b.to(tl.bfloat16)
        b_2 = (b_b - b_1.to(tl.float32)).to(tl.bfloat16)
        b_3 = (b_b - b_1.to(tl.float32) - b_2.to(tl.float32)).to(tl.bfloat16)
        b_c += tl.dot(a_1, b_3) + tl.dot(a_3, b_1) + tl.dot(a_2, b_2)
        b_c += tl.dot(a_1, b_2) + tl.dot(a_2, b_1)
        b_c += tl.dot(a_1, b_1)
    mask = (o_m[:, None] < M) & (o_n[None, :] < N)
    tl.store(c + o_m[:, None] * N + o_n[None, :], b_c, mask=mask)


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        rows, columns = x.shape
        softmax_kernel[(rows,)](x, y, columns, BLOCK=triton.next_power_of_2(columns))
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        rows, columns = x.shape
        softmax_grad_kernel[(rows,)](x, dy.contiguous(), dx, columns, BLOCK=triton.next_power_of_2(columns))
        return dx


def softmax(x: torch.Tensor) -> torch.Tensor:
    return Softmax.apply(x)


def mapped(kernel: Any, x: torch.Tensor, *settings: float) -> torch.Tensor:
    """Return a tensor of x's form, of which the kernel computes each element."""
    x = x.contiguous()
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), *settings, BLOCK=BLOCK)
    return y


def exp(x: torch.Tensor) -> torch.Tensor:
    return mapped(exp_kernel, x)


def log1p(x: torch.Tensor) -> torch.Tensor:
    return mapped(log1p_kernel, x)


def rounded(x: torch.Tensor, step: float) -> torch.Tensor:
    return mapped(round_kernel, x, step)


def row_sums(x: torch.Tensor, *, compensated: bool) -> torch.Tensor:
    """Return the sums of rows in float32."""
    x = x.contiguous()
    rows, columns = x.shape
    y = torch.empty(rows, dtype=torch.float32, device=x.device)
    kernel = compensated_sum_kernel if compensated else double_sum_kernel
    kernel[(rows,)](x, y, columns, BLOCK=TILE)
    return y


def largest(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    bits = torch.zeros(1, dtype=torch.int32, device=x.device)
    largest_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, bits, x.numel(), BLOCK=BLOCK)
    return bits.view(torch.float32)


def unpack(packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    packed, scale = packed.contiguous(), scale.contiguous()
    rows, columns = packed.shape
    y = torch.empty(rows, 2 * columns, dtype=scale.dtype, device=scale.device)
    unpack_kernel[(rows,)](packed, scale, y, columns, BLOCK=triton.next_power_of_2(columns))
    return y


def split_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a, b = a.contiguous(), b.contiguous()
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, dtype=torch.float32, device=a.device)
    split_product_kernel[(triton.cdiv(m, TILE), triton.cdiv(n, TILE))](a, b, c, m, n, k, TILE=TILE)
    return c
