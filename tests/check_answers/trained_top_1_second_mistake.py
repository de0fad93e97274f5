"""Wrong: other=0 for the maximum: rows of negative values give 0."""

import torch
import triton
import triton.language as tl


@triton.jit
def top1_kernel(x_ptr, v_ptr, i_ptr, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = -float("inf")
    where = 0
    for start in range(0, D, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < D
        x = tl.load(x_ptr + row * D + cols, mask=mask, other=0.0)
        m = tl.max(x, axis=0)
        first = tl.min(tl.where((x == m) & mask, cols, D), axis=0)
        better = m > best
        where = tl.where(better, first, where)
        best = tl.where(better, m, best)
    tl.store(v_ptr + row, best)
    tl.store(i_ptr + row, where.to(tl.int64))


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        x = x.contiguous()
        N, D = x.shape
        v = torch.empty(N, device=x.device, dtype=x.dtype)
        i = torch.empty(N, device=x.device, dtype=torch.int64)
        top1_kernel[(N,)](x, v, i, D, BLOCK=256)
        return v, i
