"""Kernels of `planted_suite`, imported in workers only, once they emulate a device."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def doubled_kernel(x, y, T, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y + at, tl.planted_double(tl.load(x + at, mask=at < T)), mask=at < T)


@triton.jit
def rounded_kernel(x, y, T, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y + at, tl.planted_third(tl.load(x + at, mask=at < T)), mask=at < T)


@triton.jit
def removed_kernel(x, y, T, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y + at, tl.planted_removed(tl.load(x + at, mask=at < T)), mask=at < T)


@triton.jit
def unchanged_kernel(x, y, T, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < T) * 2, mask=at < T)


def run(kernel: Any, x: Any) -> Any:
    y = torch.empty_like(x.contiguous())
    kernel[(1,)](x.contiguous(), y, x.numel(), B=64)
    return y
