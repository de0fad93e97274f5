"""The kernel for `unassembled`; imported only in workers, after they emulate a device."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportArgumentType=false

import torch
import triton
import triton.language as tl

BLOCK = tl.constexpr(128)


@triton.jit
def moved_kernel(x, y, length):
    at = tl.arange(0, BLOCK)
    b_x = tl.load(x + at, mask=at < length)
    b_y = tl.inline_asm_elementwise("unheard.of $0, $1;", "=r,r", [b_x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(y + at, b_y, mask=at < length)


def moved(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    moved_kernel[(1,)](x, y, x.numel())
    return y
