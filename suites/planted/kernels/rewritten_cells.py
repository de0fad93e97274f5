"""Chosen elements keep their value, all others become -1: saves the chosen ones, clears all, stores the saved ones."""

import torch
import triton
import triton.language as tl


@triton.jit
def keep_kernel(x, kept, T, count, WAITS: tl.constexpr, KEPT: tl.constexpr, BLOCK: tl.constexpr):
    chosen = tl.arange(0, KEPT)
    at = tl.load(kept + chosen, mask=chosen < count, other=0)
    saved = tl.load(x + at, mask=chosen < count, other=0.0)
    if WAITS:
        tl.debug_barrier()
    for first in range(0, T, BLOCK):
        o = first + tl.arange(0, BLOCK)
        tl.store(x + o, -1.0, mask=o < T)
    if WAITS:
        tl.debug_barrier()
    tl.store(x + at, saved, mask=chosen < count)


def keep(x: torch.Tensor, kept: torch.Tensor, *, waits: bool) -> torch.Tensor:
    x = x.clone(memory_format=torch.contiguous_format)
    size = triton.next_power_of_2(len(kept))
    keep_kernel[(1,)](x, kept, len(x), len(kept), WAITS=waits, KEPT=size, BLOCK=1024)
    return x
