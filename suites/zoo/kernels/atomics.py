"""Reductions across programs by atomics: counts, sums of segments and of scattered rows, moments, and norms."""

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 128
"""The elements that a program counts or adds."""
BLOCK_T = 32
"""The rows that a program of a sum over rows reads."""


@triton.jit
def histogram_kernel(x, counts, T, BINS: tl.constexpr, BLOCK: tl.constexpr):
    """Count in registers first, then add each bin once."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = o < T
    b_x = tl.load(x + o, mask=mask, other=0).to(tl.int32)
    b_counts = tl.histogram(b_x, BINS, mask=mask)
    tl.atomic_add(counts + tl.arange(0, BINS), b_counts, sem="relaxed")


@triton.jit
def bincount_kernel(x, weight, sums, T, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < T, other=0)
    b_w = tl.load(weight + o, mask=o < T, other=0.0).to(tl.float32)
    tl.atomic_add(sums + b_x, b_w, mask=o < T, sem="relaxed")


@triton.jit
def gather_rows_kernel(table, index, y, D, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(index + i_t).to(tl.int64)
    tl.store(y + i_t * D + o, tl.load(table + row * D + o, mask=o < D), mask=o < D)


@triton.jit
def add_rows_kernel(x, index, sums, D, BLOCK: tl.constexpr):
    """Add the row of one token to the row of `sums` that its index names."""
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(index + i_t).to(tl.int64)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    tl.atomic_add(sums + row * D + o, b_x, mask=o < D, sem="relaxed")


@triton.jit
def column_sum_kernel(x, sums, T, D, BLOCK_T: tl.constexpr, BLOCK: tl.constexpr):
    o_t = tl.program_id(0).to(tl.int64) * BLOCK_T + tl.arange(0, BLOCK_T)
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (o_t[:, None] < T) & (o[None, :] < D)
    b_x = tl.load(x + o_t[:, None] * D + o[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.atomic_add(sums + o, tl.sum(b_x, axis=0), mask=o < D, sem="relaxed")


@triton.jit
def column_square_kernel(x, sums, squares, T, D, BLOCK_T: tl.constexpr, BLOCK: tl.constexpr):
    """Add the squared distances from the mean, which is known from the sums of the launch before."""
    o_t = tl.program_id(0).to(tl.int64) * BLOCK_T + tl.arange(0, BLOCK_T)
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (o_t[:, None] < T) & (o[None, :] < D)
    b_mean = tl.load(sums + o, mask=o < D, other=0.0) / T
    b_x = tl.load(x + o_t[:, None] * D + o[None, :], mask=mask, other=0.0).to(tl.float32)
    b_centred = tl.where(mask, b_x - b_mean[None, :], 0.0)
    tl.atomic_add(squares + o, tl.sum(b_centred * b_centred, axis=0), mask=o < D, sem="relaxed")


@triton.jit
def square_sum_kernel(x, total, SIZE, BLOCK: tl.constexpr):
    """Add the squares of the elements that this program visits, in a stride of the grid."""
    b_sum = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(tl.program_id(0) * BLOCK, SIZE, tl.num_programs(0) * BLOCK):
        o = start + tl.arange(0, BLOCK)
        b_x = tl.load(x + o, mask=o < SIZE, other=0.0).to(tl.float32)
        b_sum += b_x * b_x
    tl.atomic_add(total, tl.sum(b_sum, axis=0), sem="relaxed")


@triton.jit
def clip_kernel(x, total, y, norm, SIZE, most, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b_norm = tl.sqrt(tl.load(total))
    scale = tl.minimum(most / (b_norm + 1e-6), 1.0)
    b_x = tl.load(x + o, mask=o < SIZE, other=0.0).to(tl.float32)
    tl.store(y + o, (b_x * scale).to(y.dtype.element_ty), mask=o < SIZE)
    if tl.program_id(0) == 0:
        tl.store(norm, b_norm)


@triton.jit
def global_max_kernel(x, largest, SIZE, BLOCK: tl.constexpr):
    """Raise `largest`, which holds zero at first, to the largest absolute value."""
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < SIZE, other=0.0).to(tl.float32)
    tl.atomic_max(largest, tl.max(tl.abs(b_x), axis=0), sem="relaxed")


def add_rows(x: torch.Tensor, index: torch.Tensor, rows: int) -> torch.Tensor:
    """Return the sums, in x's type, of the rows of x with equal indices."""
    tokens, columns = x.shape
    sums = torch.zeros(rows, columns, dtype=torch.float32, device=x.device)
    add_rows_kernel[(tokens, triton.cdiv(columns, BLOCK))](x.contiguous(), index, sums, columns, BLOCK=BLOCK)
    return sums.to(x.dtype)


def gather_rows(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    tokens, columns = index.shape[0], table.shape[1]
    y = torch.empty(tokens, columns, dtype=table.dtype, device=table.device)
    gather_rows_kernel[(tokens, triton.cdiv(columns, BLOCK))](table.contiguous(), index, y, columns, BLOCK=BLOCK)
    return y


class SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, index: torch.Tensor, segments: int) -> torch.Tensor:
        index = index.contiguous()
        ctx.save_for_backward(index)
        return add_rows(x, index, segments)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (index,) = ctx.saved_tensors
        return gather_rows(dy, index), None, None


class Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        index = index.contiguous()
        ctx.save_for_backward(index)
        ctx.rows = table.shape[0]
        return gather_rows(table, index)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None]:
        (index,) = ctx.saved_tensors
        return add_rows(dy, index, ctx.rows), None


def histogram(x: torch.Tensor, bins: int) -> torch.Tensor:
    x = x.contiguous()
    counts = torch.zeros(bins, dtype=torch.int32, device=x.device)
    histogram_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, counts, x.numel(), BINS=bins, BLOCK=BLOCK)
    return counts


def bincount(x: torch.Tensor, weight: torch.Tensor, bins: int) -> torch.Tensor:
    x, weight = x.contiguous(), weight.contiguous()
    sums = torch.zeros(bins, dtype=torch.float32, device=x.device)
    bincount_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, weight, sums, x.numel(), BLOCK=BLOCK)
    return sums


def segment_sum(x: torch.Tensor, index: torch.Tensor, segments: int) -> torch.Tensor:
    return SegmentSum.apply(x, index, segments)


def embedding(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return Embedding.apply(table, index)


def moments(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return means and variances of columns, in float32."""
    x = x.contiguous()
    rows, columns = x.shape
    sums, squares = (torch.zeros(columns, dtype=torch.float32, device=x.device) for _ in range(2))
    grid = (triton.cdiv(rows, BLOCK_T), triton.cdiv(columns, BLOCK))
    column_sum_kernel[grid](x, sums, rows, columns, BLOCK_T=BLOCK_T, BLOCK=BLOCK)
    column_square_kernel[grid](x, sums, squares, rows, columns, BLOCK_T=BLOCK_T, BLOCK=BLOCK)
    return sums / rows, squares / rows


def clip_norm(x: torch.Tensor, most: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return x scaled to a length of at most `most`, and its length before."""
    x = x.contiguous()
    total, norm = (torch.zeros(1, dtype=torch.float32, device=x.device) for _ in range(2))
    y = torch.empty_like(x)
    blocks = triton.cdiv(x.numel(), BLOCK)
    multiprocessors = torch.cuda.get_device_properties(x.device).multi_processor_count
    square_sum_kernel[(min(blocks, multiprocessors),)](x, total, x.numel(), BLOCK=BLOCK)
    clip_kernel[(blocks,)](x, total, y, norm, x.numel(), most, BLOCK=BLOCK)
    return y, norm


def largest(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    found = torch.zeros(1, dtype=torch.float32, device=x.device)
    global_max_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, found, x.numel(), BLOCK=BLOCK)
    return found
