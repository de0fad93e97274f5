"""Kernel of `avoidance_suite`, imported in workers only, once they emulate a device."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportArgumentType=false, reportCallIssue=false

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def double_kernel(x, y, T, FORGOTTEN: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, 2 * tl.load(x + o, mask=o < T), mask=o < T - FORGOTTEN)


def doubled(x: Any, *, forgotten: int) -> Any:
    x = x.contiguous()
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.shape[0], BLOCK),)](x, y, x.shape[0], FORGOTTEN=forgotten, BLOCK=BLOCK)
    return y
