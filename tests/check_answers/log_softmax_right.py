"""Right."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def log_softmax_kernel(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    v = v - tl.max(v, 0)
    tl.store(y + row * n + at, v - tl.log(tl.sum(tl.exp(v), 0)), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        log_softmax_kernel[(x.numel() // x.shape[-1],)](x, y, x.shape[-1], BLOCK=triton.next_power_of_2(x.shape[-1]))
        return y
