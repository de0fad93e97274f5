"""The values that replace masked lanes of a load are taken from the first lane of a group of four.

Report: triton-lang/triton#11548.
Bad: seen in 3.4.0 to 3.8.0. Good from: 3.9.0. Capability: any. num_warps, num_stages: any.
Fault: wrong values, in every schedule, where the mask is false. The axis analysis takes the load's result to be
constant over four elements, since address and mask are, and forgets `other`; arithmetic on it is done once for the
four. PTX of the bad release: one `mul.lo.s32` and `st.global.v4.b32 {%r9, %r9, %r9, %r9}`; of the good one: four
products.
"""

import torch
import triton
import triton.language as tl

REPORT = "https://github.com/triton-lang/triton/issues/11548"
LAST_BAD, FIRST_GOOD = "3.8.0", "3.9.0"
CAPABILITIES = (90, 80, 100, 120)
FAULT = "value"


@triton.jit
def scale_blocks(block_ptr, default_ptr, out_ptr, n_blocks, N: tl.constexpr):
    i = tl.arange(0, N)
    block = i // 4
    default = tl.load(default_ptr + i)
    value = tl.load(block_ptr + block, mask=block < n_blocks, other=default)
    tl.store(out_ptr + i, value * 3)


def arguments():
    return torch.arange(100, 132, dtype=torch.int32), torch.arange(128, dtype=torch.int32), 8


def launch(block, default, n_blocks):
    out = torch.full((128,), -1, dtype=torch.int32)
    scale_blocks[(1,)](block, default, out, n_blocks, N=128, num_warps=1)
    return out


def reference(block, default, n_blocks):
    at = torch.arange(128) // 4
    return torch.where(at < n_blocks, block[at], default) * 3


def agrees(actual, expected):
    return torch.equal(actual, expected)
