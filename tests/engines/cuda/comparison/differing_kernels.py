"""Kernels for `differing`; imported only in workers, after they emulate a device."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportArgumentType=false

import triton
import triton.language as tl

BLOCK = tl.constexpr(64)


@triton.jit
def store_far_outside_unless_at(y, here):
    """Stores far outside unless `y` lies at the address `here`, where it stores the value that is already there."""
    first = tl.load(y)
    tl.store(y + tl.where(y.to(tl.int64) == here, 0, 1 << 44), first)


@triton.jit
def add_one_and_address(x, y, columns):
    """Adds 1 and a number made of the tensor's address, which differs between two GPUs."""
    at = tl.arange(0, BLOCK)
    inside = at < columns
    row = tl.program_id(0) * columns
    address = (x.to(tl.int64) >> 9) % 4093
    tl.store(y + row + at, tl.load(x + row + at, mask=inside, other=0.0) + address.to(tl.float32), mask=inside)


@triton.jit
def cancel(x, y, columns):
    """Subtracts two sums that differ only by rounding: another summation order changes the whole result."""
    at = tl.arange(0, BLOCK)
    inside = at < columns
    row = tl.program_id(0) * columns
    value = tl.load(x + row + at, mask=inside, other=0.0)
    total = tl.sum(value * 1.7, 0)
    tl.store(y + row + at, (total - 1.7 * tl.sum(value, 0)) * 1e6 + value, mask=inside)


@triton.jit
def multiply_by_two_widths(left, wide, narrow, y, z):
    """Correct source that ptxas 12.8 miscompiles for compute capability 9.0.

    The SASS takes the address of most of `narrow` from an uninitialised uniform register (`cuobjdump -sass` shows it).
    """
    rows, columns = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    first = tl.load(left + rows * BLOCK + columns)
    tl.store(y + rows * BLOCK + columns, tl.dot(first, tl.load(wide + rows * BLOCK + columns)))
    at = rows * 16 + tl.arange(0, 16)[None, :]
    tl.store(z + at, tl.dot(first, tl.load(narrow + at)))


@triton.jit
def multiply_less(left, right, less, y, inner):
    """`left @ right - less`, where `less` is the exact product: the result is the rounding error."""
    rows, columns = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    sums = tl.zeros((BLOCK, BLOCK), tl.float32)
    for begin in range(0, inner, BLOCK):
        first = tl.load(left + rows * inner + begin + columns)
        sums = tl.dot(first, tl.load(right + (begin + rows) * BLOCK + columns), sums)
    tl.store(y + rows * BLOCK + columns, sums - tl.load(less + rows * BLOCK + columns))


@triton.jit
def how_far_copies_of_sums_are_apart(factors, x, y):
    """Stores the distance between copies of one sum, which is zero unless lanes hold different sums.

    Lanes differ if each fuses its own product into the first addition of a butterfly reduction.
    """
    rows, columns = tl.arange(0, BLOCK)[:, None], tl.arange(0, 16)[None, :]
    at, inside = rows * 13 + columns, columns < 13  # 13 of 16 columns, so that each lane has one product
    sums = tl.sum(tl.load(x + at, mask=inside, other=0.0) * tl.load(factors + columns, mask=inside, other=0.0), 1)
    copies = tl.broadcast_to(sums[:, None], (BLOCK, 16))
    tl.store(y + at, tl.max(copies, 1)[:, None] - copies, mask=inside)
