"""Right."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rms_norm_kernel(x, y, channels, pixels, eps, BLOCK: tl.constexpr, TILE: tl.constexpr):
    image = tl.program_id(0)
    pixel = tl.program_id(1) * TILE + tl.arange(0, TILE)
    channel = tl.arange(0, BLOCK)
    at = image * channels * pixels + channel[:, None] * pixels + pixel[None, :]
    mask = (channel[:, None] < channels) & (pixel[None, :] < pixels)
    v = tl.load(x + at, mask=mask, other=0.0)
    mean = tl.sum(v * v, 0) / channels
    tl.store(y + at, v * tl.rsqrt(mean + eps)[None, :], mask=mask)


class ModelNew(nn.Module):
    def __init__(self, eps=1e-5):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        pixels = x.shape[2] * x.shape[3]
        grid = (x.shape[0], triton.cdiv(pixels, 16))
        block = triton.next_power_of_2(x.shape[1])
        rms_norm_kernel[grid](x, y, x.shape[1], pixels, self.eps, BLOCK=block, TILE=16)
        return y
