"""Right."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def l2_norm_kernel(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + at, mask=at < n, other=0.0)
        total += v * v
    scale = 1.0 / tl.sqrt(tl.sum(total, 0))
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + at, mask=at < n, other=0.0)
        tl.store(y + row * n + at, v * scale, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        l2_norm_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=128)
        return y
