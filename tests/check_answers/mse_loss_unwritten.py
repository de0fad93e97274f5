"""Wrong: no program computes the sum of the last block, and torch adds up what the memory held before."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def block_sums_kernel(a, b, sums, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.load(a + at, mask=at < n, other=0.0) - tl.load(b + at, mask=at < n, other=0.0)
    tl.store(sums + tl.program_id(0), tl.sum(d * d, 0) / n)


class ModelNew(nn.Module):
    def forward(self, predictions, targets):
        a, b = predictions.contiguous(), targets.contiguous()
        sums = torch.empty(triton.cdiv(a.numel(), 128), dtype=a.dtype, device=a.device)
        block_sums_kernel[(max(1, a.numel() // 128),)](a, b, sums, a.numel(), BLOCK=128)
        return sums.sum()
