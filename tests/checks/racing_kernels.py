"""A candidate whose values are right, and whose warps store to one word of shared memory."""

# Triton types the kernel.
# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportIndexIssue=false, reportOperatorIssue=false

import torch
import triton
import triton.language as tl


@triton.jit
def twice(x, y, n, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    value = tl.load(x + at, at < n)
    value = tl.inline_asm_elementwise(
        "{\n.shared .align 4 .b32 cell;\nst.shared.b32 [cell], $1;\nmov.b32 $0, $1;\n}",
        "=r,r",
        [value],
        dtype=tl.float32,
        is_pure=False,
        pack=1,
    )
    tl.store(y + at, value + value, at < n)


def doubled(x):
    y = torch.empty_like(x)
    twice[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), N=128)
    return y


def reference(x):
    return x + x


def sample():
    return torch.randn(300)
