"""Wrong: the reference is called, and a kernel copies its result."""

import torch
import triton
import triton.language as tl
from softmax_problem import Model
from torch import nn


@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = Model()

    def forward(self, x):
        made = self.model(x).contiguous()
        y = torch.empty_like(made)
        copy_kernel[(triton.cdiv(made.numel(), 512),)](made, y, made.numel(), BLOCK=512)
        return y
