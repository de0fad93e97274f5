"""Right."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def norm_kernel(x, norm, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < n, other=0.0)
        total += v * v
    tl.store(norm, tl.sqrt(tl.sum(total, 0)))


@triton.jit
def divide_kernel(x, norm, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(y + at, v / tl.load(norm), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y, norm = torch.empty_like(x), torch.empty(1, device=x.device)
        norm_kernel[(1,)](x, norm, x.numel(), BLOCK=1024)
        divide_kernel[(triton.cdiv(x.numel(), 256),)](x, norm, y, x.numel(), BLOCK=256)
        return y
