"""Kernels whose host code is right on NVIDIA's GPUs and wrong on Intel's."""

import torch
import triton
import triton.language as tl

BLOCK = 64


@triton.jit
def double_kernel(x, y, T, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < T) * 2, mask=at < T)


def double_with(x, **options):
    """Launch with options that other vendors' GPUs lack: a limit of registers, a cluster."""
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK=BLOCK, **options)
    return y


def double_into_cuda(x):
    """Name the device of a new tensor, instead of taking that of the input."""
    y = torch.empty(x.shape, dtype=x.dtype, device="cuda")
    double_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK=BLOCK)
    return y


@triton.jit
def double_persistent_kernel(x, y, T, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    for first in range(tl.program_id(0) * BLOCK, T, PROGRAMS * BLOCK):
        at = first + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, mask=at < T) * 2, mask=at < T)


def double_by_sms(x):
    """Read the number of programs from a property that `torch.xpu` does not have."""
    y = torch.empty_like(x)
    programs = torch.get_device_module(x.device).get_device_properties(x.device).multi_processor_count
    double_persistent_kernel[(programs,)](x, y, x.numel(), PROGRAMS=programs, BLOCK=BLOCK)
    return y


def double_in_smaller_blocks(x):
    """Take smaller blocks on Intel's GPUs, and count programs by the larger ones."""
    y, block = torch.empty_like(x), BLOCK // 2 if x.device.type == "xpu" else BLOCK
    double_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK=block)
    return y


@triton.jit
def partial_kernel(x, parts, T, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    part, at = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    share = tl.load(x + at, mask=at < T) * 2 / PARTS
    tl.store(parts + part * T + at, share, mask=at < T)


def double_of_sums(x):
    """Sum up one part for each multiprocessor, but on Intel's GPUs launch one for each vector engine."""
    if x.device.type == "xpu":
        properties = torch.xpu.get_device_properties(x.device)
        launched, shares = 4, 4 * properties.gpu_eu_count // properties.gpu_subslice_count
    else:
        launched = shares = 4
    parts = torch.empty(launched, x.numel(), device=x.device, dtype=x.dtype)
    partial_kernel[(launched, triton.cdiv(x.numel(), BLOCK))](x, parts, x.numel(), PARTS=shares, BLOCK=BLOCK)
    return parts.sum(0)
