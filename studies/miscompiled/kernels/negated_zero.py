"""Negation is compiled to 0 - x, which gives +0.0 for x = +0.0 where the definition gives -0.0.

Report: triton-lang/triton#10270 (pytorch/pytorch#185696 shows it in atan2).
Bad: seen in 3.4.0 to 3.7.1. Good from: 3.8.0. Capability: any. num_warps, num_stages: any.
Fault: a wrong sign bit, in every schedule. PTX of the bad release: `sub.f32 %r, 0f00000000, %x`; of the good one:
`neg.f32`.
"""

import torch
import triton
import triton.language as tl

REPORT = "https://github.com/triton-lang/triton/issues/10270"
LAST_BAD, FIRST_GOOD = "3.7.1", "3.8.0"
CAPABILITIES = (90, 80, 100, 120)
FAULT = "value"


@triton.jit
def negate(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, -tl.load(x_ptr + i))


def arguments():
    return (torch.tensor([0.0, -0.0, 1.0, -1.0] * 32),)


def launch(x):
    out = torch.full_like(x, float("nan"))
    negate[(1,)](x, out, N=128, num_warps=4)
    return out


def reference(x):
    return torch.neg(x)


def agrees(actual, expected):
    return torch.equal(actual.view(torch.int32), expected.view(torch.int32))
