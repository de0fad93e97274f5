"""Instructions that each thread executes on its own registers: arithmetic, comparisons, conversions, moves.

Common types have functions of their own here.  All others go through `ptx_instructions`, which inline assembly in TTIR
uses too.  Approximate instructions are computed in float64 and rounded once; GPUs differ from that by a few units in
the last place.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from harness.engines.ptx.carry_lanes import CARRYING, carry_effect, high_product, uses_carry
from harness.engines.ptx.lane_types import DTYPES
from harness.engines.ptx.memories import WINDOWS
from harness.engines.ptx.ptx_kernel import Operand, Pair, PtxInstruction, Register, RegisterVector
from harness.engines.ptx.threads import Array
from harness.engines.ptx.wave import Effect, Read, RegisterRows, Wave, Write
from harness.engines.virtual.numbers.elements import flushed, to_odd
from harness.engines.virtual.operations.ptx_instructions import (
    INSTRUCTIONS,
    Opcode,
    bits_dtype,
    parts_of,
    register_of,
    width,
)
from harness.errors import CannotExecute

Compute = Callable[..., Array]
_ROUND_DOWN = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def lane_effect(instruction: PtxInstruction, rows: RegisterRows) -> Effect | None:
    """Return what an instruction does to each thread alone; None if it is no instruction of one thread.

    Raises:
        CannotExecute: the instruction has a form that is not known.
    """
    build = _BUILDERS.get(instruction.root)
    if uses_carry(instruction) and (build is not None or instruction.root in CARRYING):
        return carry_effect(instruction, rows)
    return build(instruction, rows) if build is not None else None


# --- one function for each type --------------------------------------------------------------------------------------


def _simple(table: Mapping[str, Compute]) -> Callable[[PtxInstruction, RegisterRows], Effect]:
    """Return a builder of instructions whose operands and result have one type.

    `table` has a function for the first letter of the type: `f` for f32 and f64, `s`, `u`, `b`, `p`.  Others are packed
    or narrow floating-point types.
    """

    def build(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
        kind = instruction.kind
        dtype = DTYPES.get(kind)
        compute = table.get(kind[0]) if dtype is not None else None
        if compute is None or dtype is None or "sat" in instruction.words:
            return _general(instruction, rows)
        reads = [rows.reader(operand, dtype) for operand in instruction.operands[1:]]
        write = rows.writer(instruction.operands[0])
        if "ftz" in instruction.words:
            return _flushing(compute, reads, write)
        return _applied(compute, reads, write)

    return build


def _applied(compute: Compute, reads: list[Read], write: Write) -> Effect:
    if len(reads) == 1:
        (only,) = reads
        return lambda wave: write(wave, compute(only(wave)))
    if len(reads) == 2:
        first, second = reads
        return lambda wave: write(wave, compute(first(wave), second(wave)))

    def effect(wave: Wave) -> None:
        write(wave, compute(*[read(wave) for read in reads]))

    return effect


def _flushing(compute: Compute, reads: list[Read], write: Write) -> Effect:
    def effect(wave: Wave) -> None:
        write(wave, flushed(compute(*[flushed(read(wave)) for read in reads])))

    return effect


def _general(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """Return an instruction as inline assembly executes it.

    Raises:
        CannotExecute: the instruction is not known there.
    """
    opcode = Opcode.read(instruction.opcode)
    compute = INSTRUCTIONS.get(opcode.name)
    if compute is None or not opcode.types:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    destination, *sources = instruction.operands
    reads = [_bits_reader(operand, opcode.source_bits(position), rows) for position, operand in enumerate(sources)]
    writes = _split_writers(destination, rows)

    def effect(wave: Wave) -> None:
        result = compute(opcode, [np.broadcast_to(read(wave), (wave.size,)) for read in reads])
        parts = [result] if isinstance(result, np.ndarray) else result
        for write, part in zip(writes, parts, strict=False):
            write(wave, part)

    return effect


def _bits_reader(operand: Operand, bits: int, rows: RegisterRows) -> Read:
    if isinstance(operand, RegisterVector):
        return _joined_reader(operand, bits, rows)
    return rows.reader(operand, bits_dtype(bits))


def _joined_reader(vector: RegisterVector, bits: int, rows: RegisterRows) -> Read:
    """Return a reader of several registers as one, the first lowest."""
    each, dtype = bits // len(vector.parts), bits_dtype(bits)
    reads = [rows.reader(part, bits_dtype(each)) for part in vector.parts]

    def read(wave: Wave) -> Array:
        result = np.zeros(1, dtype)
        for position, part in enumerate(reads):
            result = result | part(wave).astype(dtype) << dtype(position * each)
        return result

    return read


def _split_writers(destination: Operand, rows: RegisterRows) -> list[Write]:
    """Return writers of the results: one, or the two of a pair."""
    if isinstance(destination, Pair):
        return [rows.writer(destination.first), rows.writer(destination.second)]
    return [rows.writer(destination)]


# --- integers --------------------------------------------------------------------------------------------------------


def _multiply(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`mul` and `mad` of integers; of floating-point numbers as `fma`, but with two roundings."""
    kind, words = instruction.kind, instruction.words
    if kind[0] not in "su":
        if instruction.root == "mad":
            return _fma(instruction, rows)
        return _float_or({"f": np.multiply})(instruction, rows)
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


def _divided(left: Array, right: Array) -> Array:
    """Return the quotient, rounded toward zero.  A quotient by zero has all bits set."""
    safe = np.where(right == 0, right.dtype.type(1), right)
    if left.dtype.kind == "u":
        return np.where(right == 0, left.dtype.type(np.iinfo(left.dtype).max), left // safe)
    quotient = left // safe
    inexact = (left - quotient * safe != 0) & ((left < 0) != (safe < 0))
    return np.where(right == 0, left.dtype.type(-1), quotient + inexact.astype(left.dtype))


def _remainder(left: Array, right: Array) -> Array:
    safe = np.where(right == 0, right.dtype.type(1), right)
    return np.where(right == 0, left, left - _divided(left, safe) * safe)


def _shift(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
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


def _extract(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
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


def _insert(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
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


def _counted(compute: Compute) -> Callable[[PtxInstruction, RegisterRows], Effect]:
    """Return a builder of an instruction on bits whose result is a 32-bit number."""

    def build(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
        dtype = DTYPES[instruction.kind]
        read, write = rows.reader(instruction.operands[1], dtype), rows.writer(instruction.operands[0])
        return lambda wave: write(wave, compute(read(wave)).astype(np.uint32))

    return build


def _leading_zeros(values: Array) -> Array:
    bits = 8 * values.dtype.itemsize
    count = np.full(values.shape, bits, np.uint32)
    rest, found = values.copy(), np.zeros(values.shape, np.uint32)
    for step in (32, 16, 8, 4, 2, 1):
        if step < bits:
            above = rest >> values.dtype.type(step) != 0
            found += np.where(above, np.uint32(step), np.uint32(0))
            rest = np.where(above, rest >> values.dtype.type(step), rest)
    return np.where(values == 0, count, np.uint32(bits - 1) - found)


def _highest_bit(values: Array) -> Array:
    """`bfind`: the position of the highest bit that differs from the sign; all bits set if there is none."""
    if values.dtype.kind == "i":
        values = np.where(values < 0, ~values, values)
    raw = values.view(f"u{values.dtype.itemsize}")
    return np.where(raw == 0, np.uint32(0xFFFFFFFF), np.uint32(8 * raw.dtype.itemsize - 1) - _leading_zeros(raw))


def _reversed_bits(values: Array) -> Array:
    result = np.zeros_like(values)
    bits = 8 * values.dtype.itemsize
    for at in range(bits):
        result |= (values >> values.dtype.type(at) & values.dtype.type(1)) << values.dtype.type(bits - 1 - at)
    return result


def _dot_of_bytes(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
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


# --- floating point --------------------------------------------------------------------------------------------------


def fused(left: Array, right: Array, addend: Array) -> Array:
    """Return `left * right + addend` in float32, rounded once."""
    product = left.astype(np.float64) * right
    wide = product + addend
    result = wide.astype(np.float32)
    # A float64 sum is itself rounded.  That matters only where it looks like the middle of two float32 numbers, or
    # where float32 is subnormal and its middles are elsewhere.
    raw = wide.view(np.uint64) if wide.flags.c_contiguous else np.ascontiguousarray(wide).view(np.uint64)
    doubtful = (raw & np.uint64(0x1FFFFFFF)) == np.uint64(0x10000000)
    doubtful |= (np.abs(result) < np.float32(2.0**-125)) & (wide != 0)
    if not doubtful.any():
        return result
    exact_addend = np.broadcast_to(addend, wide.shape).astype(np.float64)
    part = wide - product
    error = (product - (wide - part)) + (exact_addend - part)
    inexact = doubtful & (error != 0) & np.isfinite(wide)
    if not inexact.any():
        return result
    # Round to odd in float64: the second rounding is then right.
    odd = raw | np.uint64(1)
    toward_zero = (error > 0) != (wide > 0)
    lower = np.where(toward_zero, raw - np.uint64(1), raw) | np.uint64(1)
    fixed = np.where(inexact, np.where(raw & np.uint64(1), raw, np.where(toward_zero, lower, odd)), raw)
    return fixed.view(np.float64).astype(np.float32)


def fused64(left: Array, right: Array, addend: Array) -> Array:
    """Return `left * right + addend` in float64, rounded once."""
    product = left * right
    error = _product_error(left, right, product)
    total = product + addend
    part = total - product
    rest = (product - (total - part)) + (addend - part)
    with_error = total + (rest + error)
    return np.where(np.isfinite(total) & np.isfinite(with_error), with_error, total)


def _product_error(left: Array, right: Array, product: Array) -> Array:
    """Return the part of a product that float64 cannot hold."""

    def split(values: Array) -> tuple[Array, Array]:
        scaled = values * 134217729.0
        high = scaled - (scaled - values)
        return high, values - high

    left_high, left_low = split(left)
    right_high, right_low = split(right)
    return ((left_high * right_high - product) + left_high * right_low + left_low * right_high) + left_low * right_low


def _fma(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    kind = instruction.kind
    packed = {"f32x2": 2}.get(kind)
    if packed:
        return _packed_float32(instruction, rows, fused)
    if kind not in {"f32", "f64"}:
        return _narrow_fma(instruction, rows)
    dtype = DTYPES[kind]
    reads = [rows.reader(operand, dtype) for operand in instruction.operands[1:4]]
    write, flush = rows.writer(instruction.operands[0]), "ftz" in instruction.words
    compute = _rounding(instruction, fused if kind == "f32" else fused64)
    saturates = "sat" in instruction.words

    def effect(wave: Wave) -> None:
        values = [read(wave) for read in reads]
        if flush:
            values = [flushed(value) for value in values]
        result = compute(*values)
        result = flushed(result) if flush else result
        write(wave, np.clip(np.nan_to_num(result, nan=0.0), 0, 1) if saturates else result)

    return effect


def _rounding(instruction: PtxInstruction, nearest: Compute) -> Compute:
    """Return the fused product with the rounding that the instruction asks for.

    Raises:
        CannotExecute: it rounds in another direction than to nearest or to zero.
    """
    if "rn" in instruction.words:
        return nearest
    if "rz" in instruction.words and nearest is fused:

        def toward_zero(left: Array, right: Array, addend: Array) -> Array:
            wide = left.astype(np.float64) * right + addend
            odd = to_odd(np.ascontiguousarray(wide))
            result = odd.view(np.int32) & np.int32(-2)
            exact = odd.astype(np.float64) == wide
            return np.where(exact, odd, result.view(np.float32))

        return toward_zero
    raise CannotExecute(f"the PTX instruction {instruction.opcode}")


def _narrow_fma(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`fma` of float16 and bfloat16 numbers, alone or in pairs.

    A product of two is exact in float32.  The sum goes through float64, rounded to odd, so it is rounded once.
    """
    kind = instruction.kind
    bits = width(kind)
    reads = [_bits_reader(operand, bits, rows) for operand in instruction.operands[1:4]]
    write = rows.writer(instruction.operands[0])
    relu = "relu" in instruction.words

    def effect(wave: Wave) -> None:
        left, right, addend = (
            parts_of(np.ascontiguousarray(np.broadcast_to(read(wave), (wave.size,))), kind).astype(np.float64)
            for read in reads
        )
        result = to_odd(left * right + addend)
        if relu:
            result = np.where(result > 0, result, np.float32(0))
        write(wave, register_of(result, kind))

    return effect


def _packed_float32(instruction: PtxInstruction, rows: RegisterRows, compute: Compute) -> Effect:
    """Return an instruction on two float32 numbers in a 64-bit register."""
    reads = [_bits_reader(operand, 64, rows) for operand in instruction.operands[1:]]
    write, flush = rows.writer(instruction.operands[0]), "ftz" in instruction.words

    def effect(wave: Wave) -> None:
        values = [np.ascontiguousarray(np.broadcast_to(read(wave), (wave.size,))).view(np.float32) for read in reads]
        if flush:
            values = [flushed(value) for value in values]
        result = compute(*values)
        write(wave, np.ascontiguousarray(flushed(result) if flush else result).view(np.uint64))

    return effect


def _float_or(table: Mapping[str, Compute]) -> Callable[[PtxInstruction, RegisterRows], Effect]:
    """Return a builder as `_simple`'s, that also knows two float32 numbers in one register."""
    simple = _simple(table)

    def build(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
        if instruction.kind == "f32x2":
            return _packed_float32(instruction, rows, table["f"])
        if "rz" in instruction.words or "rm" in instruction.words or "rp" in instruction.words:
            return _directed(instruction, rows, table["f"])
        return simple(instruction, rows)

    return build


def _divide(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`div`; one that may be off by two units multiplies by a rounded reciprocal, as GPUs do."""
    if {"full", "approx"}.isdisjoint(instruction.words) or instruction.kind != "f32":
        return _float_or({"s": _divided, "u": _divided, "f": np.divide})(instruction, rows)
    return _simple({"f": _approximate_quotient})(instruction, rows)


def _approximate_quotient(left: Array, right: Array) -> Array:
    reciprocal = np.float32(1) / right
    is_ordinary = (np.abs(reciprocal) >= np.float32(2.0**-126)) & np.isfinite(reciprocal) & (right != 0)
    return np.where(is_ordinary, left * reciprocal, left / right)


def _directed(instruction: PtxInstruction, rows: RegisterRows, compute: Compute) -> Effect:
    """Return an instruction on float32 numbers that rounds toward zero, down or up."""
    if instruction.kind != "f32":
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    reads = [rows.reader(operand, np.float32) for operand in instruction.operands[1:]]
    write, words = rows.writer(instruction.operands[0]), set(instruction.words)

    def effect(wave: Wave) -> None:
        wide = compute(*[read(wave).astype(np.float64) for read in reads])
        write(wave, directed(wide, words))

    return effect


def directed(wide: Array, words: set[str]) -> Array:
    """Return float64 numbers as float32, rounded as the words say."""
    nearest = wide.astype(np.float32)
    back = nearest.astype(np.float64)
    if "rz" in words:
        off = np.abs(back) > np.abs(wide)
        target = np.float32(0)
    elif "rm" in words:
        off, target = back > wide, np.float32("-inf")
    else:
        off, target = back < wide, np.float32("inf")
    return np.where(off, np.nextafter(nearest, target), nearest)


def _extreme(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`min` and `max`, of two or three operands.  Zeros are ordered by their sign."""
    kind, words = instruction.kind, instruction.words
    largest = instruction.root == "max"
    if kind[0] in "su" and kind in DTYPES and "relu" not in words:
        return _simple({"s": np.maximum, "u": np.maximum} if largest else {"s": np.minimum, "u": np.minimum})(
            instruction, rows
        )
    keeps_nan, magnitude = "NaN" in words, "xorsign" in words
    if magnitude:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    bits = width(kind)
    is_plain = kind in {"f32", "f64"}
    reads = [
        rows.reader(operand, DTYPES[kind]) if is_plain else _bits_reader(operand, bits, rows)
        for operand in instruction.operands[1:]
    ]
    write, flush, absolute = rows.writer(instruction.operands[0]), "ftz" in words, "abs" in words

    def pick(left: Array, right: Array) -> Array:
        chosen = np.signbit(left) & (left == right) if largest else ~np.signbit(left) & (left == right)
        better = left > right if largest else left < right
        result = np.where(chosen | ~(better | (left == right)), right, left)
        nan_left, nan_right = np.isnan(left), np.isnan(right)
        if keeps_nan:
            return np.where(nan_left, left, np.where(nan_right, right, result))
        return np.where(nan_left, right, np.where(nan_right, left, result))

    def effect(wave: Wave) -> None:
        values = [read(wave) for read in reads]
        if not is_plain:
            values = [parts_of(np.ascontiguousarray(np.broadcast_to(value, (wave.size,))), kind) for value in values]
        values = [np.abs(value) for value in values] if absolute else values
        values = [flushed(value) for value in values] if flush else values
        result = values[0]
        for value in values[1:]:
            result = pick(result, value)
        if result.dtype.kind == "f":
            canonical = {"f32": np.uint32(0x7FFFFFFF), "f64": np.uint64(0x7FFFFFFFFFFFFFFF)}.get(kind)
            if canonical is not None and np.isnan(result).any():
                result = np.where(np.isnan(result), canonical.view(result.dtype), result)
        write(wave, result if is_plain else register_of(result, kind))

    return effect


def _approximate(compute: Compute) -> Callable[[PtxInstruction, RegisterRows], Effect]:
    """Return a builder of a function of one float32 number; other types go through `_general`."""

    def build(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
        if instruction.kind not in {"f32", "f64"}:
            return _general(instruction, rows)
        dtype = DTYPES[instruction.kind]
        read, write = rows.reader(instruction.operands[1], dtype), rows.writer(instruction.operands[0])
        words = set(instruction.words)
        flush, is_directed = "ftz" in words, bool({"rz", "rm", "rp"} & words) and "approx" not in words

        def effect(wave: Wave) -> None:
            value = read(wave)
            value = flushed(value) if flush else value
            wide = compute(value.astype(np.float64))
            result = directed(wide, words) if is_directed and dtype is np.float32 else wide.astype(dtype)
            write(wave, flushed(result) if flush else result)

        return effect

    return build


def _sign_copied(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`copysign`: the second number with the sign of the first."""
    dtype = DTYPES[instruction.kind]
    sign, value = (rows.reader(operand, dtype) for operand in instruction.operands[1:3])
    write = rows.writer(instruction.operands[0])
    return lambda wave: write(wave, np.copysign(value(wave), sign(wave)))


_TESTS: Mapping[str, Compute] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda values: ~np.isnan(values),
    "notanumber": np.isnan,
    "normal": lambda values: np.isfinite(values) & (np.abs(values) >= np.finfo(values.dtype).smallest_normal),
    "subnormal": lambda values: (values != 0) & (np.abs(values) < np.finfo(values.dtype).smallest_normal),
}


def _tested(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    compute = _TESTS[instruction.words[1]]
    read, write = rows.reader(instruction.operands[1], DTYPES[instruction.kind]), rows.writer(instruction.operands[0])
    return lambda wave: write(wave, compute(read(wave)))


# --- comparisons and choices -----------------------------------------------------------------------------------------

_ORDERED: Mapping[str, Compute] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}


def _relation(predicate: str, is_float: bool) -> Compute:  # noqa: FBT001 - a private choice
    """Return a comparison.  With a NaN, ordered ones are false and those that end in `u` are true."""
    if not is_float:
        return _ORDERED[predicate]
    if predicate == "num":
        return lambda left, right: ~(np.isnan(left) | np.isnan(right))
    if predicate == "nan":
        return lambda left, right: np.isnan(left) | np.isnan(right)
    if predicate == "ne":
        return lambda left, right: (left < right) | (left > right)
    if predicate == "neu":
        return np.not_equal
    if predicate in _ORDERED:
        return _ORDERED[predicate]
    opposite = {"equ": "ne", "ltu": "ge", "leu": "gt", "gtu": "le", "geu": "lt"}[predicate]
    ordered = _relation(opposite, is_float=True)
    return lambda left, right: ~ordered(left, right)


def _compare(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`setp`, with the predicate that its result may be combined with."""
    kind, words = instruction.kind, instruction.words
    operands = instruction.operands
    combine = next((word for word in ("and", "or", "xor") if word in words), "")
    if kind not in DTYPES:
        return _packed_compare(instruction, rows)
    dtype = DTYPES[kind]
    relation = _relation(words[1], is_float=kind[0] == "f")
    left, right = (rows.reader(operand, dtype) for operand in operands[1:3])
    writes = _split_writers(operands[0], rows)
    flush = "ftz" in words
    with_predicate = rows.reader(operands[3], np.bool_) if combine else None
    join = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}.get(combine)

    def effect(wave: Wave) -> None:
        first, second = left(wave), right(wave)
        if flush:
            first, second = flushed(first), flushed(second)
        result = relation(first, second)
        values = [result, ~result] if len(writes) > 1 else [result]
        if join is not None and with_predicate is not None:
            values = [join(value, with_predicate(wave)) for value in values]
        for write, value in zip(writes, values, strict=True):
            write(wave, value)

    return effect


def _set(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`set`: one, or all bits of an integer, where a comparison holds; for packed numbers each on its own."""
    target, source = instruction.words[-2:]
    relation = _relation(instruction.words[1], is_float=source[0] in "fb" and not source.startswith("b3"))
    reads = [_bits_reader(operand, width(source), rows) for operand in instruction.operands[1:3]]
    write = rows.writer(instruction.operands[0])
    is_integer = target[0] in "su"

    def effect(wave: Wave) -> None:
        left, right = (
            parts_of(np.ascontiguousarray(np.broadcast_to(read(wave), (wave.size,))), source) for read in reads
        )
        holds = relation(left, right)
        if is_integer:
            write(wave, np.where(holds[..., 0], np.uint32(0xFFFFFFFF), np.uint32(0)))
        else:
            write(wave, register_of(holds.astype(np.float32), target))

    return effect


def _packed_compare(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    kind = instruction.kind
    bits = width(kind)
    relation = _relation(instruction.words[1], is_float=True)
    reads = [_bits_reader(operand, bits, rows) for operand in instruction.operands[1:3]]
    writes = _split_writers(instruction.operands[0], rows)

    def effect(wave: Wave) -> None:
        left, right = (
            parts_of(np.ascontiguousarray(np.broadcast_to(read(wave), (wave.size,))), kind) for read in reads
        )
        result = relation(left, right)
        parts = [result[..., 0], result[..., 1]] if result.shape[-1] == 2 else [result[..., 0], ~result[..., 0]]
        for write, part in zip(writes, parts, strict=False):
            write(wave, part)

    return effect


def _select(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    dtype = DTYPES[f"b{width(instruction.kind)}"]
    left, right = (rows.reader(operand, dtype) for operand in instruction.operands[1:3])
    chosen = rows.reader(instruction.operands[3], np.bool_)
    write = rows.writer(instruction.operands[0])
    return lambda wave: write(wave, np.where(chosen(wave), left(wave), right(wave)))


def _select_by_sign(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`slct`: the first number where the third is not negative."""
    dtype = DTYPES[f"b{width(instruction.words[-2])}"]
    left, right = (rows.reader(operand, dtype) for operand in instruction.operands[1:3])
    sign, write = rows.reader(instruction.operands[3], DTYPES[instruction.kind]), rows.writer(instruction.operands[0])
    return lambda wave: write(wave, np.where(sign(wave) >= 0, left(wave), right(wave)))


# --- moves and conversions -------------------------------------------------------------------------------------------


def _cache_policy(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`createpolicy`: caches are not modelled."""
    write = rows.writer(instruction.operands[0])
    return lambda wave: write(wave, np.zeros(1, np.uint64))


def _move(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`mov`, which also packs registers into a wider one and unpacks them."""
    destination, source = instruction.operands
    bits = width(instruction.kind)
    if isinstance(destination, RegisterVector):
        each = bits // len(destination.parts)
        read = rows.reader(source, bits_dtype(bits))
        writes = [rows.writer(part) for part in destination.parts]
        dtype = bits_dtype(bits)

        def unpack(wave: Wave) -> None:
            value = read(wave)
            parts = [(value >> dtype(at * each)).astype(bits_dtype(each)) for at in range(len(writes))]
            for write, part in zip(writes, parts, strict=True):
                write(wave, part)

        return unpack
    write = rows.writer(destination)
    if instruction.kind == "pred":
        read = rows.reader(source, np.bool_)
        return lambda wave: write(wave, read(wave))
    if isinstance(source, RegisterVector):
        read = _joined_reader(source, bits, rows)
        return lambda wave: write(wave, read(wave))
    read = rows.reader(source, bits_dtype(bits))
    if isinstance(source, Register) and isinstance(destination, Register):
        return _copied(source, destination, read, write)
    return lambda wave: write(wave, read(wave))


def _copied(source: Register, destination: Register, read: Read, write: Write) -> Effect:
    """Return a copy between registers.  A copy of a result that has yet to land gets it too."""

    def effect(wave: Wave) -> None:
        wave.asynchronous.copied(source, destination)
        write(wave, read(wave))

    return effect


def _to_address(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`cvta`: a generic address to one of a space, or back.  Spaces are ranges of generic addresses."""
    bits = width(instruction.kind)
    read, write = rows.reader(instruction.operands[1], bits_dtype(bits)), rows.writer(instruction.operands[0])
    space = next((word.split("::")[0] for word in instruction.words if word.split("::")[0] in WINDOWS), "")
    if not space:
        return lambda wave: write(wave, read(wave))
    window = bits_dtype(bits)(WINDOWS[space])
    if "to" in instruction.words:
        return lambda wave: write(wave, read(wave) - window)
    return lambda wave: write(wave, read(wave) + window)


def _convert(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`cvt` between scalar types; packed and narrow ones go through `_general`."""
    target, source = instruction.words[-2:]
    words = set(instruction.words)
    destination, origin, *more = instruction.operands
    if more or target not in DTYPES or source not in DTYPES:
        return _converted(instruction, rows)
    to, of = DTYPES[target], DTYPES[source]
    read, write = rows.reader(origin, of), rows.writer(destination)
    if source[0] != "f" and target[0] != "f":
        if "sat" in words:
            limits = np.iinfo(to)
            return lambda wave: write(wave, _saturated(read(wave), limits))
        return lambda wave: write(wave, read(wave).astype(to))
    if source[0] != "f" or target[0] != "f":
        return _integer_conversion(instruction, read, write, to, words)
    if not words.isdisjoint(("rz", "rm", "rp", "sat")) or not words.isdisjoint(_ROUND_DOWN):
        return _float_conversion(read, write, to, words)
    if "ftz" in words:
        return lambda wave: write(wave, flushed(flushed(read(wave)).astype(to)))
    return lambda wave: write(wave, read(wave).astype(to))


def _float_conversion(read: Read, write: Write, to: type[Any], words: set[str]) -> Effect:
    def effect(wave: Wave) -> None:
        values = read(wave)
        values = flushed(values) if "ftz" in words else values
        for word, round_to in _ROUND_DOWN.items():
            values = round_to(values) if word in words else values
        if not words.isdisjoint(("rz", "rm", "rp")) and to is np.float32:
            values = directed(values.astype(np.float64), words)
        result = values.astype(to)
        write(wave, np.clip(np.nan_to_num(result, nan=0.0), 0, 1).astype(to) if "sat" in words else result)

    return effect


def _saturated(values: Array, limits: np.iinfo[Any]) -> Array:
    wide = np.iinfo(values.dtype)
    return np.clip(values, max(limits.min, wide.min), min(limits.max, wide.max)).astype(limits.dtype)


def _integer_conversion(
    instruction: PtxInstruction, read: Read, write: Write, to: type[Any], words: set[str]
) -> Effect:
    """Return a conversion between an integer and a floating-point type.  Integers saturate; NaN becomes zero."""
    if np.dtype(to).kind == "f":
        if not words.isdisjoint(("rz", "rm", "rp")):
            if to is not np.float32:
                raise CannotExecute(f"the PTX instruction {instruction.opcode}")
            return lambda wave: write(wave, directed(read(wave).astype(np.float64), words))
        return lambda wave: write(wave, read(wave).astype(to))
    limits = np.iinfo(to)

    def effect(wave: Wave) -> None:
        values = read(wave)
        values = flushed(values) if "ftz" in words else values
        for word, round_to in _ROUND_DOWN.items():
            values = round_to(values) if word in words else values
        wide = np.nan_to_num(values.astype(np.float64), nan=0.0)
        # float64 cannot hold the largest 64-bit integers.
        beyond = wide >= float(limits.max)
        below = wide <= float(limits.min)
        held = np.where(beyond | below, 0.0, wide).astype(to)
        write(wave, np.where(beyond, to(limits.max), np.where(below, to(limits.min), held)))

    return effect


def _converted(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """Return a conversion from or to a packed or narrow type."""
    target, source = instruction.words[-2:]
    if source in {"f16", "bf16"} and target == "f32" and len(instruction.operands) == 2:
        read, write = rows.reader(instruction.operands[1], np.uint16), rows.writer(instruction.operands[0])
        if source == "bf16":
            return lambda wave: write(wave, read(wave).astype(np.uint32) << np.uint32(16))
        return lambda wave: write(wave, read(wave).view(np.float16).astype(np.float32))
    return _general(instruction, rows)


_BUILDERS: Mapping[str, Callable[[PtxInstruction, RegisterRows], Effect]] = {
    "abs": _simple({"s": np.abs, "f": np.abs}),
    "add": _float_or({"s": np.add, "u": np.add, "b": np.add, "f": np.add}),
    "and": _simple({"b": np.bitwise_and, "p": np.logical_and}),
    "bfe": _extract,
    "bfi": _insert,
    "bfind": _counted(_highest_bit),
    "brev": _simple({"b": _reversed_bits}),
    "clz": _counted(_leading_zeros),
    "copysign": _sign_copied,
    "cos": _approximate(np.cos),
    "cvt": _convert,
    "cvta": _to_address,
    "createpolicy": _cache_policy,
    "div": _divide,
    "dp4a": _dot_of_bytes,
    "ex2": _approximate(np.exp2),
    "fma": _fma,
    "lg2": _approximate(np.log2),
    "lop3": _general,
    "mad": _multiply,
    "max": _extreme,
    "min": _extreme,
    "mov": _move,
    "mul": _multiply,
    "neg": _simple({"s": np.negative, "f": np.negative}),
    "not": _simple({"b": np.bitwise_not, "p": np.logical_not}),
    "or": _simple({"b": np.bitwise_or, "p": np.logical_or}),
    "popc": _counted(np.bitwise_count),
    "prmt": _general,
    "rcp": _approximate(np.reciprocal),
    "rem": _simple({"s": _remainder, "u": _remainder}),
    "rsqrt": _approximate(lambda values: 1 / np.sqrt(values)),
    "selp": _select,
    "set": _set,
    "setp": _compare,
    "shf": _general,
    "shl": _shift,
    "shr": _shift,
    "sin": _approximate(np.sin),
    "slct": _select_by_sign,
    "sqrt": _approximate(np.sqrt),
    "sub": _float_or({"s": np.subtract, "u": np.subtract, "b": np.subtract, "f": np.subtract}),
    "tanh": _approximate(np.tanh),
    "testp": _tested,
    "xor": _simple({"b": np.bitwise_xor, "p": np.logical_xor}),
}
