"""Each element plus the next, in tiles of 16; a host option makes input and output one tensor."""

import torch
import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def add_next_kernel(x, y, T, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = tl.load(x + o, mask=o < T, other=0.0)
    following = tl.load(x + o + 1, mask=o + 1 < T, other=0.0)
    tl.store(y + o, here + following, mask=o < T)


def add_next(x: torch.Tensor, *, in_place: bool) -> torch.Tensor:
    x = x.clone(memory_format=torch.contiguous_format)
    y = x if in_place else torch.empty_like(x)
    add_next_kernel[(triton.cdiv(x.shape[0], BLOCK),)](x, y, x.shape[0], BLOCK=BLOCK)
    return y
