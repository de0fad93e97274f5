"""Kernels for `faults`: imported in workers alone, once they wear a device."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportArgumentType=false

import triton
import triton.language as tl

BLOCK = tl.constexpr(64)


@triton.jit
def add_one(x, y, columns):
    at = tl.arange(0, BLOCK)
    inside = at < columns
    row = tl.program_id(0) * columns
    tl.store(y + row + at, tl.load(x + row + at, mask=inside, other=0.0) + 1, mask=inside)


@triton.jit
def add_one_and_bits_of_the_clock(x, y, columns):
    """Right, but for the last five bits of every element, which depend on when it was computed."""
    at = tl.arange(0, BLOCK)
    inside = at < columns
    row = tl.program_id(0) * columns
    sums = tl.load(x + row + at, mask=inside, other=0.0) + 1
    ticks = tl.inline_asm_elementwise("mov.u32 $0, %clock;", "=r,r", [at], dtype=tl.int32, is_pure=False, pack=1)
    bits = sums.to(tl.int32, bitcast=True) ^ ((ticks >> 4) & 31)  # pyright: ignore[reportOperatorIssue]
    tl.store(y + row + at, bits.to(tl.float32, bitcast=True), mask=inside)


@triton.jit
def spin(flag):
    value = tl.atomic_add(flag, 0)
    while value == 0:
        value = tl.atomic_add(flag, 0)
    tl.store(flag, value)


@triton.jit
def store_at(y, element):
    tl.store(y + element.to(tl.int64), 7.0)


@triton.jit
def store_far_outside_unless_at(y, here):
    """Stores what stands in `y` already, if `y` lies there."""
    first = tl.load(y)
    tl.store(y + tl.where(y.to(tl.int64) == here, 0, 1 << 44), first)


@triton.jit
def store_misaligned(y):
    at = (y.to(tl.int64) + 1).to(tl.pointer_type(tl.float32))
    tl.store(at, 7.0)


@triton.jit
def assert_below(y, most):
    lanes = tl.arange(0, BLOCK)
    tl.device_assert(lanes < most, "a lane is too high")
    tl.store(y + lanes, 1.0, mask=lanes < 1)


@triton.jit
def add_times_zero(x, fresh, y, columns):
    """Reads what nobody wrote, and uses it only where it is finite: the poison becomes zero."""
    at = tl.arange(0, BLOCK)
    inside = at < columns
    row = tl.program_id(0) * columns
    unknown = tl.load(fresh + row + at, mask=inside, other=0.0)
    harmless = tl.where(tl.abs(unknown) < 1e30, unknown * 0.0, 0.0)
    tl.store(y + row + at, tl.load(x + row + at, mask=inside, other=0.0) + 1 + harmless, mask=inside)


@triton.jit
def race_in_shared_memory(y):
    """Every thread stores its number at one address and loads what stands there, with no barrier between."""
    lanes = tl.arange(0, 256)
    total = tl.sum(lanes, 0)  # so that the program has shared memory
    got = tl.inline_asm_elementwise(
        "{ .reg .u32 at, me; mov.u32 at, 4; mov.u32 me, %tid.x; st.shared.u32 [at], me; ld.shared.u32 $0, [at]; }",
        "=r,r",
        [lanes],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
    tl.store(y + lanes, (got + total).to(tl.float32))


@triton.jit
def move_block(given, out, stride, first):
    there = tl.make_tensor_descriptor(given, [8, stride], [stride, 1], [8, 8])
    at = tl.arange(0, 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(out + at, there.load([0, first]))


@triton.jit
def add_one_and_tell_address(x, y, columns):
    """What it stores depends on where the tensor lies: no two GPUs need agree on that."""
    at = tl.arange(0, BLOCK)
    inside = at < columns
    row = tl.program_id(0) * columns
    address = (x.to(tl.int64) >> 9) % 4093
    tl.store(y + row + at, tl.load(x + row + at, mask=inside, other=0.0) + address.to(tl.float32), mask=inside)


@triton.jit
def cancel(x, y, columns):
    """Subtracts what is equal but for rounding: another order of the sum changes all of the result."""
    at = tl.arange(0, BLOCK)
    inside = at < columns
    row = tl.program_id(0) * columns
    value = tl.load(x + row + at, mask=inside, other=0.0)
    total = tl.sum(value * 1.7, 0)
    tl.store(y + row + at, (total - 1.7 * tl.sum(value, 0)) * 1e6 + value, mask=inside)


@triton.jit
def multiply_by_two_widths(left, wide, narrow, y, z):
    """Right; what ptxas 12.8 makes of it for compute capability 9.0 finds three quarters of `narrow` elsewhere.

    It reads a uniform register that nothing has written: `cuobjdump -sass` shows it.
    """
    rows, columns = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    first = tl.load(left + rows * BLOCK + columns)
    tl.store(y + rows * BLOCK + columns, tl.dot(first, tl.load(wide + rows * BLOCK + columns)))
    at = rows * 16 + tl.arange(0, 16)[None, :]
    tl.store(z + at, tl.dot(first, tl.load(narrow + at)))


@triton.jit
def multiply_less(left, right, less, y, inner):
    """`left @ right - less`, where `less` is what that comes to: the cells hold what is lost on the way."""
    rows, columns = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    sums = tl.zeros((BLOCK, BLOCK), tl.float32)
    for begin in range(0, inner, BLOCK):
        first = tl.load(left + rows * inner + begin + columns)
        sums = tl.dot(first, tl.load(right + (begin + rows) * BLOCK + columns), sums)
    tl.store(y + rows * BLOCK + columns, sums - tl.load(less + rows * BLOCK + columns))


@triton.jit
def how_far_copies_of_sums_are_apart(factors, x, y):
    """Nothing but zeros, since all copies of a sum are equal.

    Where lanes add up what their neighbours hold, and fuse their own product into the first addition, they are not.
    """
    rows, columns = tl.arange(0, BLOCK)[:, None], tl.arange(0, 16)[None, :]
    at, inside = rows * 13 + columns, columns < 13  # 13 in a row, so that each lane has one
    sums = tl.sum(tl.load(x + at, mask=inside, other=0.0) * tl.load(factors + columns, mask=inside, other=0.0), 1)
    copies = tl.broadcast_to(sums[:, None], (BLOCK, 16))
    tl.store(y + at, tl.max(copies, 1)[:, None] - copies, mask=inside)
