"""Twice x; a host option decides if the number of rows passes through 16 bits."""

from ctypes import c_int16

import torch
import triton
import triton.language as tl

BLOCK = 128


@triton.jit
def double_kernel(x, y, T, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, 2.0 * tl.load(x + o, mask=o < T, other=0.0), mask=o < T)


def double(x: torch.Tensor, *, wide: bool) -> torch.Tensor:
    rows = x.shape[0]
    x = x.contiguous()
    y = torch.empty_like(x)
    counted = rows if wide else c_int16(rows).value
    double_kernel[(triton.cdiv(rows, BLOCK),)](x, y, counted, BLOCK=BLOCK)
    return y
