"""The Triton kernels of `faults`."""

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
    """Correct except for the last five bits of every element, which come from the SM's clock."""
    at = tl.arange(0, BLOCK)
    inside = at < columns
    row = tl.program_id(0) * columns
    sums = tl.load(x + row + at, mask=inside, other=0.0) + 1
    ticks = tl.inline_asm_elementwise("mov.u32 $0, %clock;", "=r,r", [at], dtype=tl.int32, is_pure=False, pack=1)
    bits = sums.to(tl.int32, bitcast=True) ^ ((ticks >> 4) & 31)
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
    """Reads uninitialised memory, but multiplies every finite value by zero: the result is correct."""
    at = tl.arange(0, BLOCK)
    inside = at < columns
    row = tl.program_id(0) * columns
    unknown = tl.load(fresh + row + at, mask=inside, other=0.0)
    harmless = tl.where(tl.abs(unknown) < 1e30, unknown * 0.0, 0.0)
    tl.store(y + row + at, tl.load(x + row + at, mask=inside, other=0.0) + 1 + harmless, mask=inside)


@triton.jit
def race_in_shared_memory(y):
    """Every thread stores its number at one shared address and loads it back without a barrier."""
    lanes = tl.arange(0, 256)
    total = tl.sum(lanes, 0)  # the reduction makes Triton allocate shared memory
    got = tl.inline_asm_elementwise(
        "{ .reg .u32 at, me; mov.u32 at, 4; mov.u32 me, %tid.x; st.shared.u32 [at], me; ld.shared.u32 $0, [at]; }",
        "=r,r",
        [lanes],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
    tl.store(y + lanes, (got + total).to(tl.float32))
