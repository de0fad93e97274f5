"""Right."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def cross_entropy_kernel(x, targets, loss, rows, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    top = tl.max(v, 0)
    total = tl.log(tl.sum(tl.exp(v - top), 0)) + top
    chosen = tl.load(x + row * n + tl.load(targets + row))
    tl.atomic_add(loss, (total - chosen) / rows)


class ModelNew(nn.Module):
    def forward(self, predictions, targets):
        x, targets = predictions.contiguous(), targets.contiguous()
        loss = torch.zeros((), dtype=x.dtype, device=x.device)
        block = triton.next_power_of_2(x.shape[1])
        cross_entropy_kernel[(x.shape[0],)](x, targets, loss, x.shape[0], x.shape[1], BLOCK=block)
        return loss
