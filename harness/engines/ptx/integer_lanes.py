"""Instructions of one thread on integers and bits."""

from collections.abc import Callable

import numpy as np

from harness.engines.ptx.carry_lanes import high_product
from harness.engines.ptx.lane_forms import Compute
from harness.engines.ptx.lane_types import DTYPES
from harness.engines.ptx.ptx_kernel import PtxInstruction
from harness.engines.ptx.threads import Array
from harness.engines.ptx.wave import Effect, RegisterRows, Wave
from harness.errors import CannotExecute


def multiply_integers(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`mul` and `mad`: the lower half, the upper half or the whole of a product."""
    kind, words = instruction.kind, instruction.words
    bits = int(kind[1:])
    part = next((word for word in ("lo", "hi", "wide") if word in words), "lo")
    out = 2 * bits if part == "wide" else bits
    dtype = DTYPES[kind]
    destination, *sources = instruction.operands
    reads = [rows.reader(operand, dtype) for operand in sources[:2]]
    addend = rows.reader(sources[2], DTYPES[f"{kind[0]}{out}"]) if sources[2:] else None
    if addend is not None and "sat" in words:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    write, wide = rows.writer(destination), DTYPES[f"{kind[0]}{min(64, 2 * bits)}"]
    shift = np.dtype(wide).type(bits) if bits < 64 else None

    def effect(wave: Wave) -> None:
        left, right = (read(wave) for read in reads)
        if part == "lo":
            product = left * right
        elif part == "wide":
            product = left.astype(wide) * right.astype(wide)
        elif shift is not None:
            product = (left.astype(wide) * right.astype(wide) >> shift).astype(dtype)
        else:
            product = high_product(left, right)
        write(wave, product if addend is None else product + addend(wave))

    return effect


def divided(left: Array, right: Array) -> Array:
    """Return the quotient, rounded toward zero.  A quotient by zero has all bits set."""
    safe = np.where(right == 0, right.dtype.type(1), right)
    if left.dtype.kind == "u":
        return np.where(right == 0, left.dtype.type(np.iinfo(left.dtype).max), left // safe)
    quotient = left // safe
    inexact = (left - quotient * safe != 0) & ((left < 0) != (safe < 0))
    return np.where(right == 0, left.dtype.type(-1), quotient + inexact.astype(left.dtype))


def remainder(left: Array, right: Array) -> Array:
    safe = np.where(right == 0, right.dtype.type(1), right)
    return np.where(right == 0, left, left - divided(left, safe) * safe)


def shift(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    kind = instruction.kind
    dtype, bits = DTYPES[kind], int(kind[1:])
    read, amount = rows.reader(instruction.operands[1], dtype), rows.reader(instruction.operands[2], np.uint32)
    write, left = rows.writer(instruction.operands[0]), instruction.root == "shl"
    signed = kind[0] == "s" and not left

    def effect(wave: Wave) -> None:
        by = amount(wave)
        inside = np.minimum(by, np.uint32(bits - 1)).astype(dtype)
        value = read(wave)
        shifted = value << inside if left else value >> inside
        write(wave, shifted if signed else np.where(by < bits, shifted, dtype(0)))

    return effect


def extract(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`bfe`: some bits of a number, extended by their sign for a signed type."""
    kind = instruction.kind
    signed, bits = kind[0] == "s", int(kind[1:])
    unsigned, dtype = DTYPES[f"u{bits}"], DTYPES[kind]
    read = rows.reader(instruction.operands[1], dtype)
    at, length = (rows.reader(operand, np.uint32) for operand in instruction.operands[2:4])
    write = rows.writer(instruction.operands[0])

    def effect(wave: Wave) -> None:
        value, first, count = read(wave), at(wave) & np.uint32(255), length(wave) & np.uint32(255)
        # Move the field to the top, then down again: the second shift extends the sign.
        end = np.minimum(first + count, np.uint32(bits))
        up = (np.uint32(bits) - end).astype(unsigned)
        taken = end - np.minimum(first, end)
        down = (np.uint32(bits) - taken).astype(unsigned)
        raised = (value.view(unsigned) << up).view(dtype)
        field = raised >> np.minimum(down, unsigned(bits - 1)).astype(dtype)
        if signed:
            # Beyond the top the field is filled with the sign of the number.
            outside = np.where(value < 0, dtype(-1), dtype(0))
            missing = (first + count > bits) & (count > 0)
            field = np.where(missing, value >> np.minimum(first, np.uint32(bits - 1)).astype(dtype), field)
            field = np.where((first >= bits) & (count > 0), outside, field)
            write(wave, np.where(count == 0, dtype(0), field))
        else:
            write(wave, np.where(taken == 0, dtype(0), field))

    return effect


def insert(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`bfi`: the low bits of the first number, put into the second."""
    bits = int(instruction.kind[1:])
    dtype = DTYPES[f"u{bits}"]
    reads = [rows.reader(operand, dtype) for operand in instruction.operands[1:3]]
    at, length = (rows.reader(operand, np.uint32) for operand in instruction.operands[3:5])
    write = rows.writer(instruction.operands[0])

    def effect(wave: Wave) -> None:
        field, into = (read(wave) for read in reads)
        first, count = at(wave) & np.uint32(255), length(wave) & np.uint32(255)
        ones = np.where(
            count >= bits,
            dtype(np.iinfo(dtype).max),
            (dtype(1) << np.minimum(count, bits - 1).astype(dtype)) - dtype(1),
        )
        inside = np.minimum(first, np.uint32(bits - 1)).astype(dtype)
        mask = np.where(first >= bits, dtype(0), ones << inside)
        write(wave, into & ~mask | field << inside & mask)

    return effect


def counted(compute: Compute) -> Callable[[PtxInstruction, RegisterRows], Effect]:
    """Return a builder of an instruction on bits whose result is a 32-bit number."""

    def build(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
        dtype = DTYPES[instruction.kind]
        read, write = rows.reader(instruction.operands[1], dtype), rows.writer(instruction.operands[0])
        return lambda wave: write(wave, compute(read(wave)).astype(np.uint32))

    return build


def leading_zeros(values: Array) -> Array:
    bits = 8 * values.dtype.itemsize
    count = np.full(values.shape, bits, np.uint32)
    rest, found = values.copy(), np.zeros(values.shape, np.uint32)
    for step in (32, 16, 8, 4, 2, 1):
        if step < bits:
            above = rest >> values.dtype.type(step) != 0
            found += np.where(above, np.uint32(step), np.uint32(0))
            rest = np.where(above, rest >> values.dtype.type(step), rest)
    return np.where(values == 0, count, np.uint32(bits - 1) - found)


def highest_bit(values: Array) -> Array:
    """`bfind`: the position of the highest bit that differs from the sign; all bits set if there is none."""
    if values.dtype.kind == "i":
        values = np.where(values < 0, ~values, values)
    raw = values.view(f"u{values.dtype.itemsize}")
    return np.where(raw == 0, np.uint32(0xFFFFFFFF), np.uint32(8 * raw.dtype.itemsize - 1) - leading_zeros(raw))


def reversed_bits(values: Array) -> Array:
    result = np.zeros_like(values)
    bits = 8 * values.dtype.itemsize
    for at in range(bits):
        result |= (values >> values.dtype.type(at) & values.dtype.type(1)) << values.dtype.type(bits - 1 - at)
    return result


def dot_of_bytes(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`dp4a`: four products of bytes, added to a number."""
    first_kind, second_kind = instruction.words[-2:]
    first, second, third = instruction.operands[1:4]
    reads = rows.reader(first, np.uint32), rows.reader(second, np.uint32), rows.reader(third, np.uint32)
    write = rows.writer(instruction.operands[0])

    def bytes_of(values: Array, kind: str) -> Array:
        raw = np.ascontiguousarray(values).view(np.int8 if kind[0] == "s" else np.uint8)
        return raw.reshape(-1, 4).astype(np.int64)

    def effect(wave: Wave) -> None:
        left, right = bytes_of(reads[0](wave), first_kind), bytes_of(reads[1](wave), second_kind)
        write(wave, ((left * right).sum(axis=1) + reads[2](wave)).astype(np.uint64).astype(np.uint32))

    return effect
