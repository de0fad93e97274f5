"""The constant -0.0 becomes +0.0.

Report: triton-lang/triton#11426 (pytorch/pytorch#174172 saw it first).
Bad: every release up to 3.8.0. Good from: 3.9.0. Capability: any. num_warps, num_stages: any.
Fault: a wrong sign bit, in every schedule. The front end makes the constant of 0 for each value that compares equal
to 0. PTX of the bad release: `selp.b32 %r, 0, ...` (`selp.f32 %r, 0f00000000, ...` before 3.8); of the good one:
`selp.b32 %r, -2147483648, ...`.
"""

import torch
import triton
import triton.language as tl

REPORT = "https://github.com/triton-lang/triton/issues/11426"
LAST_BAD, FIRST_GOOD = "3.8.0", "3.9.0"
CAPABILITIES = (90, 80, 100, 120)
FAULT = "value"


@triton.jit
def flush_negative(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, tl.where(x < 0, -0.0, x))


def arguments():
    return (torch.linspace(-1, 1, 128),)


def launch(x):
    out = torch.full_like(x, float("nan"))
    flush_negative[(1,)](x, out, N=128, num_warps=4)
    return out


def reference(x):
    return torch.where(x < 0, -0.0, x)


def agrees(actual, expected):
    return torch.equal(actual.view(torch.int32), expected.view(torch.int32))
