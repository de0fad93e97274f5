"""tl.dot_scaled of float4 operands packed along their rows multiplies half of the rows.

Report: triton-lang/triton#11733, fixed by #10726.
Bad: seen in 3.6.0, 3.7.1 and 3.8.0 (3.5.1 and older do not compile it). Good from: 3.9.0. Capability: 120. num_warps:
4.
Fault: wrong values, in every schedule. The bad release gives bytes that hold two rows each to the block-scaled
instruction, which takes bytes that hold two columns: the PTX of a warp has 8
`mma.sync...m16n8k64...kind::mxf4nvf4.block_scale`, where 128 x 64 results in 4 warps take 16. The good one unpacks to
bfloat16 (64 `mma.sync...m16n8k16...bf16`).
"""

import torch
import triton
import triton.language as tl

REPORT = "https://github.com/triton-lang/triton/issues/11733"
LAST_BAD, FIRST_GOOD = "3.8.0", "3.9.0"
CAPABILITIES = (120,)
FAULT = "value"
FP4 = (0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6)  # e2m1 by code


@triton.jit
def scaled_product(a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k, s = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K), tl.arange(0, K // 32)
    a = tl.load(a_ptr + tl.arange(0, M // 2)[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * (N // 2) + tl.arange(0, N // 2)[None, :])
    a_scale = tl.load(a_scale_ptr + m[:, None] * (K // 32) + s[None, :])
    b_scale = tl.load(b_scale_ptr + n[:, None] * (K // 32) + s[None, :])
    acc = tl.dot_scaled(a, a_scale, "e2m1", b, b_scale, "e2m1", lhs_k_pack=False, rhs_k_pack=False)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc)


def arguments():
    """Return the codes of A (128, 64) and B (64, 64), two rows of A and two columns of B to a byte, and the scales."""
    random = torch.Generator().manual_seed(1)
    a = torch.randint(16, (128, 64), dtype=torch.uint8, generator=random)
    b = torch.randint(16, (64, 64), dtype=torch.uint8, generator=random)
    scales = (torch.randint(125, 130, (128, 2), dtype=torch.uint8, generator=random) for _ in range(2))
    a_scale, b_scale = next(scales), next(scales)[:64].contiguous()
    return a[0::2] | a[1::2] << 4, a_scale, (b[:, 0::2] | b[:, 1::2] << 4).contiguous(), b_scale


def launch(a, a_scale, b, b_scale):
    out = torch.full((128, 64), float("nan"))
    scaled_product[(1,)](a, a_scale, b, b_scale, out, M=128, N=64, K=64, num_warps=4)
    return out


def reference(a, a_scale, b, b_scale):
    values = torch.tensor(FP4, dtype=torch.float64)
    left = values[torch.stack((a & 15, a >> 4), 1).reshape(128, 64).long()]
    right = values[torch.stack((b & 15, b >> 4), 2).reshape(64, 64).long()]
    left *= torch.exp2(a_scale.double() - 127).repeat_interleave(32, 1)
    right *= torch.exp2(b_scale.double() - 127).repeat_interleave(32, 1).T
    return left @ right


def agrees(actual, expected):
    return torch.allclose(actual.double(), expected, rtol=1e-5, atol=1e-3)
