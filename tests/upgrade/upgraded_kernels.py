"""Kernels of `upgraded_suite`, imported in workers only, once they emulate a device."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false, reportUnknownLambdaType=false

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, y, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(y + at, tl.softmax(tl.load(x + at), dim=1))


@triton.jit
def is_set_kernel(x, y, T, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < T), mask=at < T)


@triton.jit
def block_pointer_kernel(x, y, T, B: tl.constexpr):
    start = tl.program_id(0) * B
    source = tl.make_block_ptr(x, (T,), (1,), (start,), (B,), (0,))
    target = tl.make_block_ptr(y, (T,), (1,), (start,), (B,), (0,))
    tl.store(target, tl.load(source, boundary_check=(0,)), boundary_check=(0,))


@triton.autotune([triton.Config({"B": 32}), triton.Config({"B": 64}, num_warps=2)], key=["T"])
@triton.jit
def tuned_copy_kernel(x, y, T, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < T), mask=at < T)


def softmax(x: Any) -> Any:
    y = torch.empty_like(x.contiguous())
    softmax_kernel[(1,)](x.contiguous(), y, N=x.shape[0])
    return y


def is_set(x: Any) -> Any:
    y = torch.empty(x.shape, dtype=torch.bool, device=x.device)
    is_set_kernel[(triton.cdiv(x.numel(), 64),)](x.contiguous(), y, x.numel(), B=64)
    return y


def through_block_pointer(x: Any) -> Any:
    y = torch.empty_like(x.contiguous())
    block_pointer_kernel[(triton.cdiv(x.numel(), 64),)](x.contiguous(), y, x.numel(), B=64)
    return y


def tuned_copy(x: Any) -> Any:
    y = torch.empty_like(x.contiguous())
    tuned_copy_kernel[lambda meta: (triton.cdiv(x.numel(), meta["B"]),)](x.contiguous(), y, x.numel())
    return y
