"""Wrong: atomics add to memory that nobody has set to zero."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def sum_kernel(x, y, rows, columns, BLOCK: tl.constexpr):
    batch = tl.program_id(0) // rows
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * columns + column, mask=column < columns, other=0.0)
    tl.atomic_add(y + batch * columns + column, v, mask=column < columns)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty(x.shape[0], 1, x.shape[2], dtype=x.dtype, device=x.device)
        grid = (x.shape[0] * x.shape[1], triton.cdiv(x.shape[2], 64))
        sum_kernel[grid](x, y, x.shape[1], x.shape[2], BLOCK=64)
        return y
