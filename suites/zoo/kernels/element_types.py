"""Kernels for float64, eight bits and integers.  Eight bits are converted before they are computed with."""

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 32
GROUP = 32
"""The numbers that share a scale, as in the MX formats."""


@triton.jit
def log_sum_exp_kernel(x, y, x_t, D, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    values = tl.load(x + row * x_t + o, mask=o < D, other=-float("inf"))
    largest = tl.max(values, axis=0)
    tl.store(y + row, largest + tl.log(tl.sum(tl.exp(values - largest), axis=0)))


def log_sum_exp(x: Any) -> Any:
    y = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    log_sum_exp_kernel[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


@triton.jit
def typed_matmul_kernel(a, b, c, M, N, K, a_m, b_k, ACC: tl.constexpr, BLOCK: tl.constexpr):
    o_m = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    o_n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=ACC)
    for start in range(0, K, BLOCK):
        o_k = start + tl.arange(0, BLOCK)
        b_a = tl.load(a + o_m[:, None] * a_m + o_k[None, :], mask=(o_m[:, None] < M) & (o_k[None, :] < K), other=0.0)
        b_b = tl.load(b + o_k[:, None] * b_k + o_n[None, :], mask=(o_k[:, None] < K) & (o_n[None, :] < N), other=0.0)
        total = tl.dot(b_a, b_b, total, out_dtype=ACC)
    mask = (o_m[:, None] < M) & (o_n[None, :] < N)
    tl.store(c + o_m[:, None] * N + o_n[None, :], total.to(c.dtype.element_ty), mask=mask)


def matmul(a: Any, b: Any) -> Any:
    """Multiply matrices: of eight bits into bfloat16, of float64 into float64, of integers into int32."""
    if a.dtype.itemsize == 1 and a.is_floating_point() and torch.cuda.get_device_capability(a.device) < (8, 9):
        raise NotImplementedError("this GPU does not convert numbers of eight bits")  # of E5M2 ptxas says so too late
    (rows, depth), columns = a.shape, b.shape[1]
    result, total = {
        torch.float64: (torch.float64, tl.float64),
        torch.int8: (torch.int32, tl.int32),
    }.get(a.dtype, (torch.bfloat16, tl.float32))
    c = torch.empty(rows, columns, dtype=result, device=a.device)
    grid = (triton.cdiv(rows, BLOCK), triton.cdiv(columns, BLOCK))
    typed_matmul_kernel[grid](a, b, c, rows, columns, depth, a.stride(0), b.stride(0), ACC=total, BLOCK=BLOCK)
    return c


@triton.jit
def affine_kernel(x, y, x_t, D, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    values = tl.load(x + row * x_t + o, mask=o < D, other=0.0).to(tl.float32)
    tl.store(y + row * D + o, (1.5 * values + 0.25).to(y.dtype.element_ty), mask=o < D)


def affine(x: Any) -> Any:
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    affine_kernel[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


@triton.jit
def scaled_groups_kernel(x, scale, y, x_t, s_t, G, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    g, o = tl.arange(0, BLOCK), tl.arange(0, GROUP)
    at = g[:, None] * GROUP + o[None, :]
    values = tl.load(x + row * x_t + at, mask=g[:, None] < G, other=0.0).to(tl.float32)
    exponent = tl.load(scale + row * s_t + g, mask=g < G, other=0).to(tl.int32)
    factor = (exponent << 23).to(tl.float32, bitcast=True)
    tl.store(y + row * G * GROUP + at, values * factor[:, None], mask=g[:, None] < G)


def scaled_groups(x: Any, scale: Any) -> Any:
    """Multiply groups by powers of two, whose eight bits are the exponent of a float32."""
    bits, count = scale.view(torch.uint8), scale.shape[1]
    y = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(count)
    scaled_groups_kernel[(x.shape[0],)](x, bits, y, x.stride(0), bits.stride(0), count, GROUP=GROUP, BLOCK=block)
    return y


@triton.jit
def totals_kernel(x, y, x_t, D, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    tl.store(y + row, tl.sum(tl.load(x + row * x_t + o, mask=o < D, other=0).to(tl.int32), axis=0))


def totals(x: Any) -> Any:
    y = torch.empty(x.shape[0], dtype=torch.int32, device=x.device)
    totals_kernel[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
