"""Kernels for `unordered`: imported in workers alone, once they wear a device."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportArgumentType=false

import triton
import triton.language as tl

BLOCK = tl.constexpr(64)


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
    """Each program stores its neighbour's half as well, and the same numbers."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, 2 * BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < size) + 1, mask=at < size)


@triton.jit(debug=True)
def assert_none(x, y, size):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.device_assert(at < 0, "an element is too high")
    tl.store(y + at, tl.load(x + at, mask=at < size) + 1, mask=at < size)


@triton.jit
def add_products(x, y, inner: tl.constexpr):
    """Adds one, as a product with the identity out of shared memory that is filled ahead: for its own barriers."""
    rows = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, BLOCK, inner):
        cells = start + tl.arange(0, inner)
        a = tl.load(x + rows[:, None] * BLOCK + cells[None, :])
        identity = (cells[:, None] == rows[None, :]).to(a.dtype)
        sums += tl.dot(a, identity)
    tl.store(y + rows[:, None] * BLOCK + rows[None, :], sums + 1)
