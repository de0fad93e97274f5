"""Right."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale_clamp_kernel(x, y, z, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n) * scale + tl.load(y + at, mask=at < n)
    tl.store(z + at, tl.minimum(tl.maximum(v, -1.0), 1.0), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        z = torch.empty_like(x)
        scale_clamp_kernel[(triton.cdiv(x.numel(), 256),)](x, y, z, x.numel(), self.scale, BLOCK=256)
        return z
