"""Elementwise kernels: activations and gates, rotation, complex products, Adam, copies, transposition, grid strides."""

from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice

BLOCK = 1024
TILE = 32
"""The extent of tiles of a transposition and of copies by descriptors."""


@triton.jit
def activation(b_x, KIND: tl.constexpr):
    """Return the activation and its derivative."""
    if KIND == "silu":
        s = tl.sigmoid(b_x)
        b_y, b_d = b_x * s, s * (1.0 + b_x * (1.0 - s))
    elif KIND == "gelu":
        s = 0.5 * (1.0 + tl.erf(b_x * 0.7071067811865476))
        b_y, b_d = b_x * s, s + b_x * 0.3989422804014327 * tl.exp(-0.5 * b_x * b_x)
    elif KIND == "gelu_tanh":
        t = libdevice.tanh(0.7978845608028654 * (b_x + 0.044715 * b_x * b_x * b_x))
        inner = 0.7978845608028654 * (1.0 + 3.0 * 0.044715 * b_x * b_x)
        b_y, b_d = 0.5 * b_x * (1.0 + t), 0.5 * (1.0 + t) + 0.5 * b_x * (1.0 - t * t) * inner
    else:
        tl.static_assert(KIND == "softplus")
        b_y = tl.maximum(b_x, 0.0) + libdevice.log1p(tl.exp(-tl.abs(b_x)))
        b_d = tl.sigmoid(b_x)
    return b_y, b_d


@triton.jit
def activation_kernel(x, y, SIZE, KIND: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_y, _b_d = activation(b_x, KIND)
    tl.store(y + o, b_y.to(y.dtype.element_ty), mask=o < SIZE)


@triton.jit
def activation_grad_kernel(x, dy, dx, SIZE, KIND: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_dy = tl.load(dy + o, mask=o < SIZE, other=0.0).to(tl.float32)
    _b_y, b_d = activation(b_x, KIND)
    tl.store(dx + o, (b_dy * b_d).to(dx.dtype.element_ty), mask=o < SIZE)


@triton.jit
def gate_kernel(a, b, y, SIZE, KIND: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    b_a = tl.load(a + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_b = tl.load(b + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_gate, _b_d = activation(b_a, KIND)
    tl.store(y + o, (b_gate * b_b).to(y.dtype.element_ty), mask=o < SIZE)


@triton.jit
def gate_grad_kernel(a, b, dy, da, db, SIZE, KIND: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    b_a = tl.load(a + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_b = tl.load(b + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_dy = tl.load(dy + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_gate, b_d = activation(b_a, KIND)
    tl.store(da + o, (b_dy * b_b * b_d).to(da.dtype.element_ty), mask=o < SIZE)
    tl.store(db + o, (b_dy * b_gate).to(db.dtype.element_ty), mask=o < SIZE)


@triton.jit
def rotary_kernel(x, cos, sin, y, T, H, D, SIGN: tl.constexpr, BLOCK: tl.constexpr):
    """Rotate the two halves of one head of one token; a negative sign rotates back."""
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    half = D // 2
    first = (i_t * H + tl.program_id(1)) * D
    b_cos = tl.load(cos + (i_t % T) * half + o, mask=o < half, other=0.0).to(tl.float32)
    b_sin = SIGN * tl.load(sin + (i_t % T) * half + o, mask=o < half, other=0.0).to(tl.float32)
    b_a = tl.load(x + first + o, mask=o < half, other=0.0).to(tl.float32)
    b_b = tl.load(x + first + half + o, mask=o < half, other=0.0).to(tl.float32)
    tl.store(y + first + o, (b_a * b_cos - b_b * b_sin).to(y.dtype.element_ty), mask=o < half)
    tl.store(y + first + half + o, (b_b * b_cos + b_a * b_sin).to(y.dtype.element_ty), mask=o < half)


@triton.jit
def complex_product_kernel(a, b, y, PAIRS, CONJUGATE: tl.constexpr, BLOCK: tl.constexpr):
    """Multiply pairs (real, imaginary); the second factor's conjugate is what gradients need."""
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = o < PAIRS
    a_re = tl.load(a + 2 * o, mask=mask, other=0.0).to(tl.float32)
    a_im = tl.load(a + 2 * o + 1, mask=mask, other=0.0).to(tl.float32)
    b_re = tl.load(b + 2 * o, mask=mask, other=0.0).to(tl.float32)
    b_im = tl.load(b + 2 * o + 1, mask=mask, other=0.0).to(tl.float32)
    if CONJUGATE:
        b_im = -b_im
    tl.store(y + 2 * o, (a_re * b_re - a_im * b_im).to(y.dtype.element_ty), mask=mask)
    tl.store(y + 2 * o + 1, (a_re * b_im + a_im * b_re).to(y.dtype.element_ty), mask=mask)


@triton.jit
def lerp_kernel(a, b, weight, y, SIZE, BLOCK: tl.constexpr):
    """Compute a + w * (b - a) from the nearer end, so that w = 1 gives b."""
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    b_a = tl.load(a + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_b = tl.load(b + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_w = tl.load(weight + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_y = tl.where(b_w < 0.5, b_a + b_w * (b_b - b_a), b_b - (b_b - b_a) * (1.0 - b_w))
    tl.store(y + o, b_y.to(y.dtype.element_ty), mask=o < SIZE)


@triton.jit
def lerp_grad_kernel(a, b, weight, dy, da, db, dw, SIZE, BLOCK: tl.constexpr):
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    b_a = tl.load(a + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_b = tl.load(b + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_w = tl.load(weight + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_dy = tl.load(dy + o, mask=o < SIZE, other=0.0).to(tl.float32)
    tl.store(da + o, (b_dy * (1.0 - b_w)).to(da.dtype.element_ty), mask=o < SIZE)
    tl.store(db + o, (b_dy * b_w).to(db.dtype.element_ty), mask=o < SIZE)
    tl.store(dw + o, (b_dy * (b_b - b_a)).to(dw.dtype.element_ty), mask=o < SIZE)


@triton.jit
def adam_kernel(p, g, m, v, SIZE, rate, beta_1, beta_2, eps, decay, correction_1, correction_2, BLOCK: tl.constexpr):
    """One step of Adam with decoupled weight decay, in place."""
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = o < SIZE
    b_p = tl.load(p + o, mask=mask, other=0.0).to(tl.float32)
    b_g = tl.load(g + o, mask=mask, other=0.0).to(tl.float32)
    b_m = beta_1 * tl.load(m + o, mask=mask, other=0.0) + (1.0 - beta_1) * b_g
    b_v = beta_2 * tl.load(v + o, mask=mask, other=0.0) + (1.0 - beta_2) * b_g * b_g
    step = (b_m / correction_1) / (tl.sqrt(b_v / correction_2) + eps)
    b_p = b_p * (1.0 - rate * decay) - rate * step
    tl.store(p + o, b_p.to(p.dtype.element_ty), mask=mask)
    tl.store(m + o, b_m, mask=mask)
    tl.store(v + o, b_v, mask=mask)


@triton.jit
def scaled_sum_kernel(x, y, z, SIZE, alpha, BLOCK: tl.constexpr):
    """Compute alpha * x + y in a stride of the grid."""
    blocks = tl.cdiv(SIZE, BLOCK)
    for i in range(tl.program_id(0), blocks, tl.num_programs(0)):
        o = i.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        b_x = tl.load(x + o, mask=o < SIZE, other=0.0).to(tl.float32)
        b_y = tl.load(y + o, mask=o < SIZE, other=0.0).to(tl.float32)
        tl.store(z + o, (alpha * b_x + b_y).to(z.dtype.element_ty), mask=o < SIZE)


@triton.jit
def scale_by_descriptors_kernel(x, y, T, D, scale, TILE: tl.constexpr):
    i_t, i_d = tl.program_id(0) * TILE, tl.program_id(1) * TILE
    d_x = tl.make_tensor_descriptor(x, [T, D], [D, 1], [TILE, TILE])
    d_y = tl.make_tensor_descriptor(y, [T, D], [D, 1], [TILE, TILE])
    b_y = d_x.load([i_t, i_d]).to(tl.float32) * scale
    d_y.store([i_t, i_d], b_y.to(y.dtype.element_ty))


@triton.jit
def transpose_kernel(x, y, T, D, TILE: tl.constexpr):
    """Move one tile.  Tiles are counted along x, for the other axes of a grid are short."""
    tiles = tl.cdiv(D, TILE)
    o_t = (tl.program_id(0) // tiles).to(tl.int64) * TILE + tl.arange(0, TILE)
    o_d = (tl.program_id(0) % tiles).to(tl.int64) * TILE + tl.arange(0, TILE)
    mask = (o_t[:, None] < T) & (o_d[None, :] < D)
    b_x = tl.load(x + o_t[:, None] * D + o_d[None, :], mask=mask)
    tl.store(y + o_d[:, None] * T + o_t[None, :], tl.trans(b_x), mask=tl.trans(mask))


class Activation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, kind: str) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        activation_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), KIND=kind, BLOCK=BLOCK)
        ctx.save_for_backward(x)
        ctx.kind = kind
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        dx, grid = torch.empty_like(x), (triton.cdiv(x.numel(), BLOCK),)
        activation_grad_kernel[grid](x, dy.contiguous(), dx, x.numel(), KIND=ctx.kind, BLOCK=BLOCK)
        return dx, None


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor, kind: str) -> torch.Tensor:
        a, b = a.contiguous(), b.contiguous()
        y = torch.empty_like(a)
        gate_kernel[(triton.cdiv(a.numel(), BLOCK),)](a, b, y, a.numel(), KIND=kind, BLOCK=BLOCK)
        ctx.save_for_backward(a, b)
        ctx.kind = kind
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        a, b = ctx.saved_tensors
        da, db, grid = torch.empty_like(a), torch.empty_like(b), (triton.cdiv(a.numel(), BLOCK),)
        gate_grad_kernel[grid](a, b, dy.contiguous(), da, db, a.numel(), KIND=ctx.kind, BLOCK=BLOCK)
        return da, db, None


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, sign: int) -> torch.Tensor:
    x = x.contiguous()
    batch, tokens, heads, columns = x.shape
    y, block = torch.empty_like(x), triton.next_power_of_2(columns // 2)
    rotary_kernel[(batch * tokens, heads)](x, cos, sin, y, tokens, heads, columns, SIGN=sign, BLOCK=block)
    return y


class Rotary(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        cos, sin = cos.contiguous(), sin.contiguous()
        ctx.save_for_backward(cos, sin)
        return rotated(x, cos, sin, 1)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return rotated(dy, *ctx.saved_tensors, -1), None, None


def multiplied(a: torch.Tensor, b: torch.Tensor, *, conjugate: bool) -> torch.Tensor:
    y, pairs = torch.empty_like(a), a.numel() // 2
    complex_product_kernel[(triton.cdiv(pairs, BLOCK),)](a, b, y, pairs, CONJUGATE=conjugate, BLOCK=BLOCK)
    return y


class ComplexProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = a.contiguous(), b.contiguous()
        ctx.save_for_backward(a, b)
        return multiplied(a, b, conjugate=False)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = ctx.saved_tensors
        dy = dy.contiguous()
        return multiplied(dy, b, conjugate=True), multiplied(dy, a, conjugate=True)


class Lerp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        a, b, weight = a.contiguous(), b.contiguous(), weight.contiguous()
        y = torch.empty_like(a)
        lerp_kernel[(triton.cdiv(a.numel(), BLOCK),)](a, b, weight, y, a.numel(), BLOCK=BLOCK)
        ctx.save_for_backward(a, b, weight)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        a, b, weight = ctx.saved_tensors
        da, db, dw = torch.empty_like(a), torch.empty_like(b), torch.empty_like(weight)
        grid = (triton.cdiv(a.numel(), BLOCK),)
        lerp_grad_kernel[grid](a, b, weight, dy.contiguous(), da, db, dw, a.numel(), BLOCK=BLOCK)
        return da, db, dw


class ScaledSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor, alpha: float) -> torch.Tensor:
        x, y = x.contiguous(), y.contiguous()
        z = torch.empty_like(x)
        multiprocessors = torch.cuda.get_device_properties(x.device).multi_processor_count
        grid = (min(triton.cdiv(x.numel(), BLOCK), multiprocessors),)
        scaled_sum_kernel[grid](x, y, z, x.numel(), alpha, BLOCK=BLOCK)
        ctx.alpha = alpha
        return z

    @staticmethod
    def backward(ctx: Any, dz: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        return ctx.alpha * dz, dz, None


class Transpose(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        rows, columns = x.shape
        y = torch.empty(columns, rows, dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(rows, TILE) * triton.cdiv(columns, TILE),)
        transpose_kernel[grid](x, y, rows, columns, TILE=TILE)
        return y

    @staticmethod
    def backward(_ctx: Any, dy: torch.Tensor) -> torch.Tensor:
        return Transpose.apply(dy)


def activated(x: torch.Tensor, kind: str) -> torch.Tensor:
    return Activation.apply(x, kind)


def gate(a: torch.Tensor, b: torch.Tensor, kind: str) -> torch.Tensor:
    return Gate.apply(a, b, kind)


def rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return Rotary.apply(x, cos, sin)


def complex_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return ComplexProduct.apply(a, b)


def lerp(a: torch.Tensor, b: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return Lerp.apply(a, b, weight)


def scaled_sum(x: torch.Tensor, y: torch.Tensor, alpha: float) -> torch.Tensor:
    return ScaledSum.apply(x, y, alpha)


def transpose(x: torch.Tensor) -> torch.Tensor:
    return Transpose.apply(x)


def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    """Return factor * x by descriptors, whose rows must begin at multiples of 16 bytes."""
    triton.set_allocator(lambda size, _alignment, _stream: torch.empty(size, dtype=torch.int8, device=x.device))
    x = x.contiguous()
    x = x.clone() if x.data_ptr() % 16 else x
    y = torch.empty_like(x)
    rows, columns = x.shape
    grid = (triton.cdiv(rows, TILE), triton.cdiv(columns, TILE))
    scale_by_descriptors_kernel[grid](x, y, rows, columns, factor, TILE=TILE)
    return y


def adam(
    p: torch.Tensor, g: torch.Tensor, m: torch.Tensor, v: torch.Tensor, *, step: int, betas: tuple[float, float],
    rate: float, eps: float, decay: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Update parameters and moments, which are contiguous, in place; return them."""
    first, second = betas
    settings = (rate, first, second, eps, decay, 1 - first**step, 1 - second**step)
    grid = (triton.cdiv(p.numel(), BLOCK),)
    adam_kernel[grid](p, g.contiguous(), m, v, p.numel(), *settings, BLOCK=BLOCK)
    return p, m, v
