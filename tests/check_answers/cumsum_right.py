"""Right."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def cumsum_kernel(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carry = 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + at, mask=at < n, other=0.0)
        tl.store(y + row * n + at, tl.cumsum(v, 0) + carry, mask=at < n)
        carry += tl.sum(v, 0)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        cumsum_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=64)
        return y
