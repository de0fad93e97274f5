"""Wrong: the window begins one element late."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def depthwise_kernel(x, w, y, channels, n, out, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(SIZE):
        v = tl.load(x + row * n + at + k + 1, mask=(at < out) & (at + k + 1 < n), other=0.0)
        total += v * tl.load(w + row % channels * SIZE + k)
    tl.store(y + row * out + at, total, mask=at < out)


class ModelNew(nn.Module):
    def __init__(self, channels, size):
        super().__init__()
        self.size = size
        self.conv = nn.Conv1d(channels, channels, size, groups=channels, bias=False)

    def forward(self, x):
        x = x.contiguous()
        out = x.shape[2] - self.size + 1
        y = torch.empty(x.shape[0], x.shape[1], out, dtype=x.dtype, device=x.device)
        grid = (x.shape[0] * x.shape[1], triton.cdiv(out, 64))
        w = self.conv.weight
        depthwise_kernel[grid](x, w, y, x.shape[1], x.shape[2], out, SIZE=self.size, BLOCK=64)
        return y
