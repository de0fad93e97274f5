"""tl.dot_scaled takes the scale byte 0 for 0 instead of 2**-127.

Report: triton-lang/triton#11624 (listed in #11735).
Bad: seen in 3.4.0 to 3.8.0. Good from: 3.9.0. Capability: 90 and 80 (the product is a bfloat16 one there). num_warps:
4.
Fault: wrong values, in every schedule: the byte is shifted into the exponent field of a bfloat16 (`shl.b16 ..., 7`),
which is 2**(byte - 127) for all bytes but 0. The good release has `max.u16 ..., 64` after the shift: 0x0040 is the
subnormal 2**-127.
"""

import torch
import triton
import triton.language as tl

REPORT = "https://github.com/triton-lang/triton/issues/11624"
LAST_BAD, FIRST_GOOD = "3.8.0", "3.9.0"
CAPABILITIES = (90, 80)
FAULT = "value"


@triton.jit
def scaled_product(a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, out_ptr, M: tl.constexpr, K: tl.constexpr):
    m, k, s = tl.arange(0, M), tl.arange(0, K), tl.arange(0, K // 32)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * M + m[None, :])
    a_scale = tl.load(a_scale_ptr + m[:, None] * (K // 32) + s[None, :])
    b_scale = tl.load(b_scale_ptr + m[:, None] * (K // 32) + s[None, :])
    tl.store(out_ptr + m[:, None] * M + m[None, :], tl.dot_scaled(a, a_scale, "e5m2", b, b_scale, "e5m2"))


def arguments():
    random = torch.Generator().manual_seed(1)
    powers = torch.tensor([-4, -2, -1, 1, 2, 4]).to(torch.float8_e5m2)  # exact in bfloat16 at both scales
    a, b = (powers[torch.randint(6, shape, generator=random)] for shape in ((32, 64), (64, 32)))
    return a, torch.zeros(32, 2, dtype=torch.uint8), b, torch.full((32, 2), 247, dtype=torch.uint8)


def launch(a, a_scale, b, b_scale):
    out = torch.full((32, 32), float("nan"))
    scaled_product[(1,)](a.view(torch.uint8), a_scale, b.view(torch.uint8), b_scale, out, M=32, K=64, num_warps=4)
    return out


def reference(a, a_scale, b, b_scale):
    left = a.double() * torch.exp2(a_scale.double() - 127).repeat_interleave(32, 1)
    right = b.double() * torch.exp2(b_scale.double() - 127).repeat_interleave(32, 1).T
    return left @ right


def agrees(actual, expected):
    return torch.allclose(actual.double(), expected, atol=1e-6)
