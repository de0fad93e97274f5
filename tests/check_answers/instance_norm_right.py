"""Right."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def instance_norm_kernel(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    centred = tl.where(at < n, v - tl.sum(v, 0) / n, 0.0)
    variance = tl.sum(centred * centred, 0) / n
    tl.store(y + row * n + at, centred / tl.sqrt(variance + 1e-5), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.channels = channels

    def forward(self, x):
        x = x.contiguous()
        y, n = torch.empty_like(x), x.shape[2] * x.shape[3]
        instance_norm_kernel[(x.numel() // n,)](x, y, n, BLOCK=triton.next_power_of_2(n))
        return y
