"""A kernel to compile.  Its parameters have no annotations, since Triton would interpret them."""
# pyright: basic

import triton
import triton.language as tl


@triton.jit
def doubled(x, y, n, size: tl.constexpr):
    offsets = tl.program_id(0) * size + tl.arange(0, size)
    inside = offsets < n
    tl.store(y + offsets, 2 * tl.load(x + offsets, mask=inside, other=0.0), mask=inside)
