"""Right."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def gelu_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(
        y + at,
        0.5 * v * (1.0 + (2.0 * tl.sigmoid(2.0 * 0.7978845608028654 * (v + 0.044715 * v * v * v)) - 1.0)),
        mask=at < n,
    )


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        gelu_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
