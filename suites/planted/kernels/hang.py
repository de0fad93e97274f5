"""Twice x after a flag is set; a host option sets it."""

import torch
import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def wait_kernel(flag, x, y, T, BLOCK: tl.constexpr):
    while tl.load(flag, volatile=True) == 0:
        pass
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, 2.0 * tl.load(x + o, mask=o < T, other=0.0), mask=o < T)


def wait_and_double(x: torch.Tensor, *, ready: bool) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    flag = torch.full((1,), int(ready), dtype=torch.int32, device=x.device)
    wait_kernel[(triton.cdiv(x.shape[0], BLOCK),)](flag, x, y, x.shape[0], BLOCK=BLOCK)
    return y
