"""float16 to float8e5 with round-to-nearest-even rounds ties away from zero where the GPU has no fp8 conversion.

Report: triton-lang/triton#5925 (also #6102, #7904, #11753).
Bad: up to 3.8.0. Good from: 3.9.0. Capability: below 89, so 80. num_warps, num_stages: any.
Fault: wrong values, in every schedule: 9.0 becomes 10.0 instead of 8.0. The conversion is done by integer code inside
inline assembly: the bad one adds half a unit (`add.u32 a0, a0, 0x00800080` after clearing the lowest bit); the good
one adds 0x007f007f plus the last kept bit, clamps to the largest finite value and keeps NaN (`set.nan.f16x2`,
`lop3`).
"""

import torch
import triton
import triton.language as tl

REPORT = "https://github.com/triton-lang/triton/issues/5925"
LAST_BAD, FIRST_GOOD = "3.8.0", "3.9.0"
CAPABILITIES = (80,)
FAULT = "value"


@triton.jit
def to_fp8(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i).to(tl.float8e5, fp_downcast_rounding="rtne"))


def arguments():
    ties = torch.arange(1024, 2048, 8).to(torch.float16)[:128]
    return (ties * 0.0078125,)


def launch(x):
    out = torch.zeros(x.shape, dtype=torch.float8_e5m2)
    to_fp8[(1,)](x, out, N=128, num_warps=4)
    return out


def reference(x):
    return x.to(torch.float8_e5m2)


def agrees(actual, expected):
    return torch.equal(actual.view(torch.uint8), expected.view(torch.uint8))
