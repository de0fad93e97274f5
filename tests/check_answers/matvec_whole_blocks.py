"""Wrong: only whole blocks are summed."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def matvec_kernel(a, b, c, K, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for step in range(K // BLOCK):
        at = step * BLOCK + tl.arange(0, BLOCK)
        left = tl.load(a + row * K + at, mask=at < K, other=0.0)
        total += left * tl.load(b + at, mask=at < K, other=0.0)
    tl.store(c + row, tl.sum(total, 0))


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        c = torch.empty(a.shape[0], 1, dtype=a.dtype, device=a.device)
        matvec_kernel[(a.shape[0],)](a, b, c, a.shape[1], BLOCK=128)
        return c
