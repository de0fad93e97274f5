"""Wrong: programs load, add and store the same element."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def mse_kernel(a, b, loss, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.load(a + at, mask=at < n, other=0.0) - tl.load(b + at, mask=at < n, other=0.0)
    tl.store(loss, tl.load(loss) + tl.sum(d * d, 0) / n)


class ModelNew(nn.Module):
    def forward(self, predictions, targets):
        a, b = predictions.contiguous(), targets.contiguous()
        loss = torch.zeros((), dtype=a.dtype, device=a.device)
        mse_kernel[(triton.cdiv(a.numel(), 128),)](a, b, loss, a.numel(), BLOCK=128)
        return loss
