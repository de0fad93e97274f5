"""Kernels of `paired_run_suite`, imported in workers only, once they emulate a device."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportArgumentType=false, reportCallIssue=false

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def scan_kernel(x, y, flags, sums, T, BLOCK: tl.constexpr):
    """Scan one tile per program.  A program waits for the one before, so programs must begin by ascending id."""
    i = tl.program_id(0)
    o = i * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < T, other=0.0)
    before = 0.0
    if i > 0:
        while tl.atomic_add(flags + i - 1, 0, sem="acquire") == 0:
            pass
        before = tl.load(sums + i - 1)
    tl.store(sums + i, before + tl.sum(b_x, axis=0))
    tl.debug_barrier()
    tl.atomic_add(flags + i, 1, sem="release")
    tl.store(y + o, before + tl.cumsum(b_x, axis=0), mask=o < T)


def scan(x: Any) -> Any:
    x = x.contiguous()
    y = torch.empty_like(x)
    tiles = triton.cdiv(x.shape[0], BLOCK)
    flags = torch.zeros(tiles, dtype=torch.int32, device=x.device)
    sums = torch.zeros(tiles, dtype=torch.float32, device=x.device)
    scan_kernel[(tiles,)](x, y, flags, sums, x.shape[0], BLOCK=BLOCK, num_warps=32)
    return y


@triton.jit
def count_kernel(out, NUM_SMS: tl.constexpr):
    tl.store(out, NUM_SMS)
