"""Twice x, one row per program; a host option chooses the number of bits of the row's offset."""

import torch
import triton
import triton.language as tl


@triton.jit
def double_rows_kernel(x, y, D, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    i_t = tl.program_id(0)
    if WIDE:
        i_t = i_t.to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=0.0)
    tl.store(y + i_t * D + o, 2.0 * b_x, mask=o < D)


def double(x: torch.Tensor, *, wide: bool) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    rows, columns = x.shape
    double_rows_kernel[(rows,)](x, y, columns, WIDE=wide, BLOCK=triton.next_power_of_2(columns))
    return y
