"""The sum of x by partial sums of 16; a host option chooses how many programs share a partial sum's cell."""

import torch
import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def partial_sum_kernel(x, partial, T, SHARED_BY: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    o = i * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial + i // SHARED_BY, tl.sum(tl.load(x + o, mask=o < T, other=0.0), axis=0))


def total(x: torch.Tensor, *, programs_per_cell: int) -> torch.Tensor:
    x = x.contiguous()
    programs = triton.cdiv(x.shape[0], BLOCK)
    partial = torch.empty(triton.cdiv(programs, programs_per_cell), dtype=x.dtype, device=x.device)
    partial_sum_kernel[(programs,)](x, partial, x.shape[0], SHARED_BY=programs_per_cell, BLOCK=BLOCK)
    return partial.sum(0, keepdim=True)
