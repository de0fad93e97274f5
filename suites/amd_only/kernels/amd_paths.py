"""Kernels whose host code is right on NVIDIA's GPUs and wrong on AMD's."""

import torch
import triton
import triton.language as tl

IS_HIP = torch.version.hip is not None
LARGEST = 448.0
"""The largest number of `float8_e4m3fn`.  That of `float8_e4m3fnuz` is 240."""


@triton.jit
def double_kernel(x, y, T, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < T) * 2, mask=at < T)


def double_by_warps(x):
    """Give each program as many elements as a warp of 32 lanes has, and count them by the GPU's own width."""
    y, lanes = torch.empty_like(x), torch.cuda.get_device_properties(x.device).warp_size
    double_kernel[(triton.cdiv(x.numel(), lanes),)](x, y, x.numel(), BLOCK=32, num_warps=1)
    return y


def double_in_one_block(x, num_warps):
    y = torch.empty_like(x)
    double_kernel[(1,)](x, y, x.numel(), BLOCK=triton.next_power_of_2(x.numel()), num_warps=num_warps)
    return y


@triton.jit
def product_kernel(x, w, y, T, D, TILE: tl.constexpr, INNER: tl.constexpr, STAGES: tl.constexpr):
    rows, columns = tl.arange(0, TILE), tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), tl.float32)
    for first in tl.range(0, D, INNER, num_stages=STAGES):
        inner = first + tl.arange(0, INNER)
        left = tl.load(x + rows[:, None] * D + inner[None, :], mask=(rows[:, None] < T) & (inner[None, :] < D), other=0)
        right = tl.load(w + inner[:, None] * TILE + columns[None, :], mask=inner[:, None] < D, other=0)
        total = tl.dot(left, right, total)
    tl.store(y + rows[:, None] * TILE + columns[None, :], total.to(y.dtype.element_ty), mask=rows[:, None] < T)


def product(x, w):
    """Multiply up to 128 rows by 128 columns, in tiles that take 96 KiB of shared memory on NVIDIA's and AMD's GPUs."""
    y = torch.empty(x.shape[0], 128, device=x.device, dtype=x.dtype)
    stages = 4 if IS_HIP else 3  # AMD's pipeline needs a buffer less
    tiles = {"TILE": 128, "INNER": 64, "STAGES": stages}
    product_kernel[(1,)](x, w, y, x.shape[0], x.shape[1], **tiles, num_stages=stages, num_warps=8)
    return y


@triton.jit
def quantise_kernel(x, y, scale, T, LARGEST: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < T, other=0.0).to(tl.float32)
    peak = tl.max(tl.abs(values))
    factor = tl.where(peak > 0, peak / LARGEST, 1.0)
    tl.store(y + at, (values / factor).to(y.dtype.element_ty), mask=at < T)
    tl.store(scale, factor)


def peak_of_quantised(x):
    """Return the largest magnitude of `x` after quantising it to 8 bits in the GPU's own format, and back."""
    kind = torch.float8_e4m3fnuz if IS_HIP else torch.float8_e4m3fn
    y, scale = torch.empty_like(x, dtype=kind), torch.empty(1, device=x.device)
    block = max(1024, triton.next_power_of_2(x.numel()))
    quantise_kernel[(1,)](x, y, scale, x.numel(), LARGEST=LARGEST, BLOCK=block)
    return (y.float() * scale).abs().amax()


@triton.jit
def normalise_kernel(x, y, D, EPS: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0) * D, tl.arange(0, BLOCK)
    values = tl.load(x + row + at, mask=at < D, other=0.0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(values * values) / D + EPS)
    tl.store(y + row + at, (values * scale).to(y.dtype.element_ty), mask=at < D)


@triton.jit
def normalise_in_parts_kernel(x, y, D, EPS: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0) * D, tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, D, BLOCK):
        values = tl.load(x + row + first + at, mask=first + at < D, other=0.0).to(tl.float32)
        total += values * values
    scale = 1 / tl.sqrt(tl.sum(total) / BLOCK + EPS)  # the mean of a block, not of the row
    for first in range(0, D, BLOCK):
        values = tl.load(x + row + first + at, mask=first + at < D, other=0.0).to(tl.float32)
        tl.store(y + row + first + at, (values * scale).to(y.dtype.element_ty), mask=first + at < D)


def normalise(x):
    """Divide rows by the root of their mean square; AMD's path keeps less of a row at a time."""
    y, block = torch.empty_like(x), triton.next_power_of_2(x.shape[-1])
    kernel = normalise_in_parts_kernel if IS_HIP else normalise_kernel
    kernel[(x.shape[0],)](x, y, x.shape[-1], EPS=1e-6, BLOCK=min(block, 64) if IS_HIP else block)
    return y
