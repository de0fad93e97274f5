"""Wrong: the padding is zero, which is larger than a window of negative numbers."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def max_pool_kernel(x, y, n, n_out, padding, WINDOW: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    for k in range(WINDOW):
        source = at - padding + k
        inside = (source >= 0) & (source < n)
        best = tl.maximum(best, tl.load(x + row * n + source, mask=inside, other=0.0))
    tl.store(y + row * n_out + at, best, mask=at < n_out)


class ModelNew(nn.Module):
    def __init__(self, window, padding):
        super().__init__()
        self.window, self.padding = window, padding

    def forward(self, x):
        x = x.contiguous()
        rows, n = x.shape[0] * x.shape[1], x.shape[2]
        n_out = n + 2 * self.padding - self.window + 1
        y = torch.empty((*x.shape[:2], n_out), device=x.device)
        grid = (rows, triton.cdiv(n_out, 64))
        max_pool_kernel[grid](x, y, n, n_out, self.padding, WINDOW=self.window, BLOCK=64)
        return y
