"""A load whose row is a remainder is vectorised although odd rows are not aligned.

Report: triton-lang/triton#11544, fixed by #11546.
Bad: seen in 3.4.0 to 3.8.0. Good from: 3.9.0. Capability: any. num_warps: 1 (num_stages: any).
Fault: a misaligned access, in every schedule: the axis analysis takes gcd(divisibility) for each element of `i % (2
<< i // 16)`. PTX of the bad release: `ld.global.v2.b32` from `x + 4 * (row + column)`, odd rows start 4 bytes into an
8-byte word (CUDA: misaligned address); of the good one: `ld.global.b32`.
"""

import torch
import triton
import triton.language as tl

REPORT = "https://github.com/triton-lang/triton/issues/11544"
LAST_BAD, FIRST_GOOD = "3.8.0", "3.9.0"
CAPABILITIES = (90, 80, 100, 120)
FAULT = "misaligned"


@triton.jit
def rows_by_remainder(x_ptr, out_ptr, R: tl.constexpr, C: tl.constexpr):
    i = tl.arange(0, R)
    row = i % (2 << (i // 16))
    column = tl.arange(0, C)
    tl.store(out_ptr + i[:, None] * C + column[None, :], tl.load(x_ptr + row[:, None] + column[None, :]))


def arguments():
    return (torch.arange(64, dtype=torch.float32),)


def launch(x):
    out = torch.full((32, 16), float("nan"))
    rows_by_remainder[(1,)](x, out, R=32, C=16, num_warps=1)
    return out


def reference(x):
    i = torch.arange(32)
    return x[(i % (2 << (i // 16)))[:, None] + torch.arange(16)[None, :]]


def agrees(actual, expected):
    return torch.equal(actual, expected)
