"""Wrong: torch computes the softmax, a kernel copies it."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        made = torch.softmax(x, dim=1).contiguous()
        y = torch.empty_like(made)
        copy_kernel[(triton.cdiv(made.numel(), 512),)](made, y, made.numel(), BLOCK=512)
        return y
