"""Kernels for `unordered`; imported only in workers, after they emulate a device."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportArgumentType=false

from typing import Any

import triton
import triton.language as tl

BLOCK = tl.constexpr(64)
WIDTHS = [triton.Config({"width": width}) for width in (16, 32, 64)]


@triton.jit
def add_one(x, y, size):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < size) + 1, mask=at < size)


@triton.jit
def add_one_to_a_row(x, y, columns):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    tl.store(y + row + at, tl.load(x + row + at, mask=at < columns) + 1, mask=at < columns)


@triton.jit
def add_one_twice_as_wide(x, y, size):
    """Each program also stores the next program's elements, with the same values."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, 2 * BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < size) + 1, mask=at < size)


@triton.jit(debug=True)
def assert_none(x, y, size):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.device_assert(at < 0, "an element is too high")
    tl.store(y + at, tl.load(x + at, mask=at < size) + 1, mask=at < size)


@triton.jit
def add_products(x, y, inner: tl.constexpr):
    """Adds one to a product with the identity; the loop is pipelined through shared memory, with correct barriers."""
    rows = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, BLOCK, inner):
        cells = start + tl.arange(0, inner)
        a = tl.load(x + rows[:, None] * BLOCK + cells[None, :])
        identity = (cells[:, None] == rows[None, :]).to(a.dtype)
        sums += tl.dot(a, identity)
    tl.store(y + rows[:, None] * BLOCK + rows[None, :], sums + 1)


@triton.jit
def sum_rows(x, y, columns, leaves_out: tl.constexpr, width: tl.constexpr):
    """The sum of each row plus one per column; `leaves_out` drops the last cell of tiles, except of one width."""
    row = x + tl.program_id(0) * columns
    sums = tl.zeros((width,), tl.float32)
    for start in range(0, columns, width):
        lane = tl.arange(0, width)
        inside = (start + lane < columns) & ((lane < width - 1) | (width == 64) | (not leaves_out))
        sums += tl.where(inside, tl.load(row + start + lane, mask=inside, other=0.0) + 1, 0.0)
    tl.store(y + tl.program_id(0), tl.sum(sums, 0))


@triton.jit
def largest_of_rows(x, y, columns, width: tl.constexpr):
    row = x + tl.program_id(0) * columns
    largest = tl.full((width,), float("-inf"), tl.float32)
    for start in range(0, columns, width):
        lane = start + tl.arange(0, width)
        largest = tl.maximum(largest, tl.load(row + lane, mask=lane < columns, other=float("-inf")))
    tl.store(y + tl.program_id(0), tl.max(largest, 0))


tuned_sum_rows: Any = triton.autotune(configs=WIDTHS, key=["columns"])(sum_rows)
tuned_largest_of_rows: Any = triton.autotune(configs=WIDTHS, key=["columns"])(largest_of_rows)
