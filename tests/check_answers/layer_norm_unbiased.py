"""Wrong: the variance divides by n - 1."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def layer_norm_kernel(x, w, b, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    mean = tl.sum(v, 0) / n
    centred = tl.where(at < n, v - mean, 0.0)
    var = tl.sum(centred * centred, 0) / (n - 1)
    scale = tl.load(w + at, mask=at < n, other=0.0)
    shift = tl.load(b + at, mask=at < n, other=0.0)
    tl.store(y + row * n + at, (v - mean) * tl.rsqrt(var + eps) * scale + shift, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        n = x.shape[-1]
        block = triton.next_power_of_2(n)
        layer_norm_kernel[(x.numel() // n,)](x, self.norm.weight, self.norm.bias, y, n, self.norm.eps, BLOCK=block)
        return y
