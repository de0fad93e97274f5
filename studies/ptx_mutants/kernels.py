"""The kernels that are mutated, each with its arguments and its definition."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: N803, PLR0913, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportAssignmentType=false

import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    o = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + o, mask=o < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * n + o, e / tl.sum(e, 0), mask=o < n)


@triton.jit
def scan_kernel(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    o = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + o, mask=o < n, other=0.0)
    tl.store(y + row * n + o, tl.cumsum(v, 0), mask=o < n)


@triton.jit
def transpose_kernel(x, y, n, m, BN: tl.constexpr, BM: tl.constexpr):
    rows = tl.program_id(0) * BN + tl.arange(0, BN)
    columns = tl.program_id(1) * BM + tl.arange(0, BM)
    inside = (rows[:, None] < n) & (columns[None, :] < m)
    tile = tl.load(x + rows[:, None] * m + columns[None, :], mask=inside)
    tl.store(y + columns[:, None] * n + rows[None, :], tl.trans(tile), mask=tl.trans(inside))


@triton.jit
def column_sum_kernel(x, y, n, m, BN: tl.constexpr, BM: tl.constexpr):
    rows = tl.arange(0, BN)
    columns = tl.program_id(0) * BM + tl.arange(0, BM)
    tile = tl.load(x + rows[:, None] * m + columns[None, :], mask=rows[:, None] < n, other=0.0)
    tl.store(y + columns, tl.sum(tile, 0))


@triton.jit
def row_order_kernel(x, y, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, tl.sort(tl.load(x + o)))


@triton.jit
def histogram_kernel(x, y, BLOCK: tl.constexpr, BINS: tl.constexpr):
    values = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.store(y + tl.program_id(0) * BINS + tl.arange(0, BINS), tl.histogram(values, BINS))


@triton.jit
def chained_kernel(a, b, c, BM: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    inner = tl.arange(0, K)
    left = tl.load(a + rows[:, None] * K + inner[None, :])
    right = tl.load(b + inner[:, None] * K + inner[None, :])
    product = tl.dot(left, right).to(tl.float16)
    tl.store(c + rows[:, None] * K + inner[None, :], tl.dot(product, right))


@triton.jit
def matmul_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        left = tl.load(a + rm[:, None] * K + (k + rk)[None, :], mask=rm[:, None] < M, other=0.0)
        right = tl.load(b + (k + rk)[:, None] * N + rn[None, :], mask=rn[None, :] < N, other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + rm[:, None] * N + rn[None, :], total, mask=(rm[:, None] < M) & (rn[None, :] < N))
