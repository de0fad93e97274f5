"""Wrong: elements at the ends divide by what is inside."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def pool_kernel(x, y, n, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(SIZE):
        source = at + k - SIZE // 2
        total += tl.load(x + row * n + source, mask=(source >= 0) & (source < n), other=0.0)
    tl.store(y + row * n + at, total / (SIZE - (at == 0) - (at == n - 1)), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        n = x.shape[-1]
        pool_kernel[(x.numel() // n, triton.cdiv(n, 128))](x, y, n, SIZE=self.size, BLOCK=128)
        return y
