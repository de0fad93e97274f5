"""A kernel that converts floats to every integer type, for tests of the machine and of native code."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false

import torch
import triton
import triton.language as tl


@triton.jit
def to_integers_kernel(x, i8, i16, i32, i64, u8, u16, u32, u64, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    tl.store(i8 + at, value.to(tl.int8))
    tl.store(i16 + at, value.to(tl.int16))
    tl.store(i32 + at, value.to(tl.int32))
    tl.store(i64 + at, value.to(tl.int64))
    tl.store(u8 + at, value.to(tl.uint8))
    tl.store(u16 + at, value.to(tl.uint16))
    tl.store(u32 + at, value.to(tl.uint32))
    tl.store(u64 + at, value.to(tl.uint64))


def outputs(size: int) -> list[torch.Tensor]:
    """Return the tensors that the kernel stores to, in the order of its parameters."""
    names = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    return [torch.zeros(size, dtype=getattr(torch, name)) for name in names]
