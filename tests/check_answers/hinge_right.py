"""Right."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def hinge_kernel(x, labels, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n) * tl.load(labels + at, mask=at < n)
    tl.store(y + at, tl.maximum(1 - v, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, predictions, labels):
        x, labels = predictions.contiguous(), labels.contiguous()
        y = torch.empty_like(x)
        hinge_kernel[(triton.cdiv(x.numel(), 128),)](x, labels, y, x.numel(), BLOCK=128)
        return y
