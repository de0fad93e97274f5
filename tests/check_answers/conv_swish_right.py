"""Right."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def bias_swish_kernel(x, b, y, n, channels, pixels, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n) + tl.load(b + at // pixels % channels, mask=at < n)
    tl.store(y + at, v * tl.sigmoid(v), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.conv = nn.Conv2d(channels, width, 3)
        self.shift = nn.Parameter(torch.randn(width))

    def forward(self, x):
        x = self.conv(x).contiguous()
        y = torch.empty_like(x)
        pixels = x.shape[2] * x.shape[3]
        grid = (triton.cdiv(x.numel(), 256),)
        bias_swish_kernel[grid](x, self.shift, y, x.numel(), x.shape[1], pixels, BLOCK=256)
        return y
