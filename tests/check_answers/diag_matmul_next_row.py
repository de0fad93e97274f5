"""Wrong: without a mask, the last block stores into the next row."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def diag_kernel(a, b, c, n, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(b + row * n + at, mask=at < n * n, other=0.0)
    tl.store(c + row * n + at, v * tl.load(a + row * stride), mask=at < n * n)


class ModelNew(nn.Module):
    def forward(self, a, b):
        b = b.contiguous()
        c = torch.empty_like(b)
        diag_kernel[(b.shape[0], triton.cdiv(b.shape[1], 32))](a, b, c, b.shape[1], a.stride(0), BLOCK=32)
        return c
