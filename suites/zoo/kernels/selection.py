"""Selection in rows: the maximum, the k largest, and sorting.  Of equal elements the first one comes first."""

from typing import Any

import torch
import triton
import triton.language as tl

LAST = tl.constexpr(2**31 - 1)


@triton.jit
def max_kernel(x, y, index, D, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=float("-inf"))
    i_max = tl.argmax(b_x, axis=0, tie_break_left=True)
    tl.store(y + i_t, tl.load(x + i_t * D + i_max))
    tl.store(index + i_t, i_max.to(tl.int64))


@triton.jit
def ordered_bits(b_x):
    """Return unsigned integers in the order of the float32 numbers; both zeros are equal."""
    bits = tl.where(b_x == 0.0, 0.0, b_x).to(tl.uint32, bitcast=True)
    return bits ^ tl.where(bits >> 31 == 1, 0xFFFFFFFF, 0x80000000).to(tl.uint32)


@triton.jit
def top_k_kernel(x, y, index, D, K, BLOCK: tl.constexpr):
    """Sort keys of a number above and its complemented place below, so that equal numbers keep their order."""
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=float("-inf")).to(tl.float32)
    key = (ordered_bits(b_x).to(tl.uint64) << 32) | (LAST - o).to(tl.uint64)
    key = tl.sort(tl.where(o < D, key, 0), descending=True)
    place = LAST - (key & LAST).to(tl.int64)
    b_y = tl.load(x + i_t * D + place, mask=o < K, other=0.0)
    tl.store(y + i_t * K + o, b_y, mask=o < K)
    tl.store(index + i_t * K + o, place, mask=o < K)


@triton.jit
def scatter_kernel(dy, index, dx, D, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    """Store a row of zeros, with dy at the chosen places."""
    i_t = tl.program_id(0).to(tl.int64)
    o, o_k = tl.arange(0, BLOCK), tl.arange(0, BLOCK_K)
    b_index = tl.load(index + i_t * K + o_k, mask=o_k < K, other=-1)
    b_dy = tl.load(dy + i_t * K + o_k, mask=o_k < K, other=0.0).to(tl.float32)
    b_dx = tl.sum(tl.where(o[:, None] == b_index[None, :], b_dy[None, :], 0.0), axis=1)
    tl.store(dx + i_t * D + o, b_dx.to(dx.dtype.element_ty), mask=o < D)


@triton.jit
def sort_kernel(x, y, D, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=float("inf"))
    tl.store(y + i_t * D + o, tl.sort(b_x), mask=o < D)


class TopK(torch.autograd.Function):
    """The k largest elements of each row and their places, in descending order."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = x.contiguous()
        rows, ctx.columns = x.shape
        y = torch.empty(rows, k, dtype=x.dtype, device=x.device)
        index = torch.empty(rows, k, dtype=torch.int64, device=x.device)
        if k == 1:
            max_kernel[(rows,)](x, y, index, ctx.columns, BLOCK=triton.next_power_of_2(ctx.columns))
        else:
            top_k_kernel[(rows,)](x, y, index, ctx.columns, k, BLOCK=triton.next_power_of_2(ctx.columns))
        ctx.save_for_backward(index)
        ctx.mark_non_differentiable(index)
        return y, index

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor, _dindex: torch.Tensor) -> tuple[torch.Tensor, None]:
        (index,) = ctx.saved_tensors
        rows, k = index.shape
        dx = torch.empty(rows, ctx.columns, dtype=dy.dtype, device=dy.device)
        block, block_k = triton.next_power_of_2(ctx.columns), triton.next_power_of_2(k)
        scatter_kernel[(rows,)](dy.contiguous(), index, dx, ctx.columns, k, BLOCK=block, BLOCK_K=block_k)
        return dx, None


def top_k(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    return TopK.apply(x, k)


def maximum(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y, index = TopK.apply(x, 1)
    return y[:, 0], index[:, 0]


def sort(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    rows, columns = x.shape
    sort_kernel[(rows,)](x, y, columns, BLOCK=triton.next_power_of_2(columns))
    return y
