"""Kernels of `matrix_suite`, imported in workers only, once they emulate a device."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, ARG001, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportUnknownLambdaType=false

from typing import Any

import torch
import triton
import triton.language as tl

SMALL = triton.Config({"B": 32}, num_warps=4, num_stages=1)
LARGE = triton.Config({"B": 128}, num_warps=8, num_stages=3)
TOO_LARGE = triton.Config({"B": 256}, num_warps=8, num_stages=5)
INVALID = triton.Config({"B": 24}, num_warps=4, num_stages=1)
PRUNED = triton.Config({"B": 64}, num_warps=4, num_stages=2)


def without_pruned(configs: Any, named: Any, **_: Any) -> Any:
    return [config for config in configs if config is not PRUNED]


@triton.autotune(
    [SMALL, LARGE, TOO_LARGE, INVALID, PRUNED], key=["T"], prune_configs_by={"early_config_prune": without_pruned}
)
@triton.jit
def product_kernel(x, out, T, D, B: tl.constexpr):
    rows, columns = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for start in range(0, D, B):
        inner = start + tl.arange(0, B)
        left = tl.load(
            x + rows[:, None] * D + inner[None, :], mask=(rows < T)[:, None] & (inner < D)[None, :], other=0.0
        )
        right = tl.load(
            x + columns[None, :] * D + inner[:, None], mask=(columns < T)[None, :] & (inner < D)[:, None], other=0.0
        )
        total = tl.dot(left, right, total)
    mask = (rows < T)[:, None] & (columns < T)[None, :]
    tl.store(out + rows[:, None] * T + columns[None, :], total.to(out.dtype.element_ty), mask=mask)


@triton.jit
def copy_kernel(x, out, N, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at < N), mask=at < N)


def product(x: Any) -> Any:
    copied = torch.empty_like(x.contiguous())
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x.contiguous(), copied, x.numel(), B=1024)
    out = torch.empty(x.shape[0], x.shape[0], dtype=x.dtype, device=x.device)
    product_kernel[lambda meta: (triton.cdiv(x.shape[0], meta["B"]),) * 2](copied, out, *x.shape)
    return out
