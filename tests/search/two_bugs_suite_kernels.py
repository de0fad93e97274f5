"""2 x and 3 x in one kernel.

With two bugs, 2 x is wrong for lengths that 16 does not divide, and 3 x for long ones.  With one bug, the last element
is not read if 16 does not divide the length.  The gradient is right.
"""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def two_bugs_kernel(x, y, z, T, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < T, other=0.0)
    b_y, b_z = 2 * b_x, 3 * b_x
    if T % 16 != 0:
        b_y += 1
    if T > 64:
        b_z += 1
    tl.store(y + o, b_y, mask=o < T)
    tl.store(z + o, b_z, mask=o < T)


@triton.jit
def one_bug_kernel(x, y, z, T, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < T // 16 * 16, other=5.0)
    tl.store(y + o, 2 * b_x, mask=o < T)
    tl.store(z + o, 3 * b_x, mask=o < T)


class DoubledAndTripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, bugs: int) -> tuple[torch.Tensor, torch.Tensor]:
        del ctx
        x = x.contiguous()
        y, z = torch.empty_like(x), torch.empty_like(x)
        kernel = two_bugs_kernel if bugs == 2 else one_bug_kernel
        kernel[(triton.cdiv(x.shape[0], BLOCK),)](x, y, z, x.shape[0], BLOCK=BLOCK)
        return y, z

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor, None]:
        del ctx
        dy, dz = cotangents
        return 2 * dy + 3 * dz, None


def doubled_and_tripled(x: torch.Tensor, *, bugs: int) -> tuple[torch.Tensor, torch.Tensor]:
    return DoubledAndTripled.apply(x, bugs)
