"""The sum of x: each program adds the sum of its tile to one cell by an atomic of some scope."""

import torch
import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def total_kernel(x, total, T, SCOPE: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + o, mask=o < T, other=0.0), axis=0)
    tl.atomic_add(total, part, sem="relaxed", scope=SCOPE)


def total(x: torch.Tensor, *, scope: str) -> torch.Tensor:
    x = x.contiguous()
    y = torch.zeros(1, dtype=x.dtype, device=x.device)
    total_kernel[(triton.cdiv(x.shape[0], BLOCK),)](x, y, x.shape[0], SCOPE=scope, BLOCK=BLOCK)
    return y
