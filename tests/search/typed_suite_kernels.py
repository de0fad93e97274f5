"""Wrong kernels for the element types of `typed_suite`."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def float32_sum_kernel(x, y, x_t, D, BLOCK: tl.constexpr):
    row, o = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * x_t + o, mask=o < D, other=0.0).to(tl.float32)
    tl.store(y + row, tl.sum(values, axis=0).to(tl.float64))


@triton.jit
def truncated_kernel(x, y, x_t, D, BITS: tl.constexpr, BLOCK: tl.constexpr):
    """Scale, and cut the fraction off instead of rounding it."""
    row, o = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * x_t + o, mask=o < D, other=0.0).to(tl.float32) * 1.1875
    cut = (values.to(tl.int32, bitcast=True) >> (23 - BITS) << (23 - BITS)).to(tl.float32, bitcast=True)
    tl.store(y + row * D + o, cut.to(y.dtype.element_ty), mask=o < D)


@triton.jit
def exponent_kernel(x, scale, y, x_t, D, BLOCK: tl.constexpr):
    """Take the bias of the scales for 126, so a factor of two is lost."""
    row, o = tl.program_id(0), tl.arange(0, BLOCK)
    factor = ((tl.load(scale + row).to(tl.int32) + 1) << 23).to(tl.float32, bitcast=True)
    tl.store(y + row * D + o, tl.load(x + row * x_t + o, mask=o < D) * factor, mask=o < D)


@triton.jit
def threefold_kernel(x, y, x_t, D, KIND: tl.constexpr, BLOCK: tl.constexpr):
    row, o = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * x_t + o, mask=o < D, other=0).to(KIND)
    tl.store(y + row * D + o, (values + values + values).to(tl.int32), mask=o < D)


def _rows(kernel: Any, x: Any, y: Any, *more: Any, **constants: Any) -> Any:
    x = x.contiguous()  # kernels take one stride for what they load and store
    block = triton.next_power_of_2(x.shape[1])
    kernel[(x.shape[0],)](x, *more, y, x.stride(0), x.shape[1], BLOCK=block, **constants)
    return y


def summed_in_float32(x: Any) -> Any:
    return _rows(float32_sum_kernel, x, torch.empty(x.shape[0], dtype=x.dtype, device=x.device))


def truncated(x: Any) -> Any:
    bits = 3 if x.dtype == torch.float8_e4m3fn else 2
    return _rows(truncated_kernel, x, torch.empty(x.shape, dtype=x.dtype, device=x.device), BITS=bits)


def biased_by_126(x: Any, scale: Any) -> Any:
    return _rows(exponent_kernel, x, torch.empty(x.shape, device=x.device), scale.contiguous().view(torch.uint8))


def added_in_eight_bits(x: Any) -> Any:
    return _rows(threefold_kernel, x, torch.empty(x.shape, dtype=torch.int32, device=x.device), KIND=tl.int8)


def added_in_floats(x: Any) -> Any:
    return _rows(threefold_kernel, x, torch.empty(x.shape, dtype=torch.int32, device=x.device), KIND=tl.float16)
