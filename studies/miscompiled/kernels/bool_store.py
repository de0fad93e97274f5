"""Storing an integer through a pointer to bool keeps its low byte instead of comparing it with zero: 256 becomes False.

Report: triton-lang/triton#9991, fixed by #11853 (notes of Triton 3.9.0, "Wrong results").
Bad: every release up to 3.8.0. Good from: 3.9.0. Capability: any. num_warps, num_stages: any.
Fault: wrong values, in every schedule. The bad TTIR has `arith.trunci ... i32 to i8` before the store (PTX:
`cvt.u16.u32`, `st.global.b8` or packed bytes of the loaded words); the good one has `arith.cmpi ne` and `arith.extui`
(PTX: `setp.ne`, `selp`). A stored 2 is no valid bool either: the byte must be 0 or 1.
"""

import torch
import triton
import triton.language as tl

REPORT = "https://github.com/triton-lang/triton/issues/9991"
LAST_BAD, FIRST_GOOD = "3.8.0", "3.9.0"
CAPABILITIES = (90, 80, 100, 120)
FAULT = "value"


@triton.jit
def any_set(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i))


def arguments():
    return (
        torch.tensor(
            [0, 1, 2, 255, 256, 257, 512, 65536, -1, -256, 1 << 30, 0, 3, 128, 1024, 7] * 8, dtype=torch.int32
        ),
    )


def launch(x):
    out = torch.zeros(x.shape, dtype=torch.bool)
    any_set[(1,)](x, out, N=128, num_warps=4)
    return out


def reference(x):
    return x != 0


def agrees(actual, expected):
    return torch.equal(actual.view(torch.uint8), expected.to(torch.uint8))
