"""Instructions of one thread on floating-point numbers.

Approximate ones are computed in float64 and rounded once; GPUs differ from that by a few units in the last place.
"""

from collections.abc import Callable, Mapping

import numpy as np

from harness.engines.ptx.lane_forms import Compute, bits_reader, general, simple
from harness.engines.ptx.lane_types import DTYPES
from harness.engines.ptx.ptx_kernel import PtxInstruction
from harness.engines.ptx.threads import Array
from harness.engines.ptx.wave import Effect, RegisterRows, Wave
from harness.engines.virtual.numbers.elements import flushed, to_odd
from harness.engines.virtual.operations.ptx_instructions import (
    parts_of,
    register_of,
    width,
)
from harness.errors import CannotExecute


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


def fused_product(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
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
    reads = [bits_reader(operand, bits, rows) for operand in instruction.operands[1:4]]
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
    reads = [bits_reader(operand, 64, rows) for operand in instruction.operands[1:]]
    write, flush = rows.writer(instruction.operands[0]), "ftz" in instruction.words

    def effect(wave: Wave) -> None:
        values = [np.ascontiguousarray(np.broadcast_to(read(wave), (wave.size,))).view(np.float32) for read in reads]
        if flush:
            values = [flushed(value) for value in values]
        result = compute(*values)
        write(wave, np.ascontiguousarray(flushed(result) if flush else result).view(np.uint64))

    return effect


def float_or(table: Mapping[str, Compute]) -> Callable[[PtxInstruction, RegisterRows], Effect]:
    """Return a builder as `simple`'s, that also knows two float32 numbers in one register."""
    build_simple = simple(table)

    def build(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
        if instruction.kind == "f32x2":
            return _packed_float32(instruction, rows, table["f"])
        if "rz" in instruction.words or "rm" in instruction.words or "rp" in instruction.words:
            return _directed(instruction, rows, table["f"])
        return build_simple(instruction, rows)

    return build


def divide(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`div`; one that may be off by two units multiplies by a rounded reciprocal, as GPUs do."""
    if {"full", "approx"}.isdisjoint(instruction.words) or instruction.kind != "f32":
        return float_or({"f": np.divide})(instruction, rows)
    return simple({"f": _approximate_quotient})(instruction, rows)


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


def extreme(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`min` and `max`, of two or three operands.  Zeros are ordered by their sign."""
    kind, words = instruction.kind, instruction.words
    largest = instruction.root == "max"
    if kind[0] in "su" and kind in DTYPES and "relu" not in words:
        return simple({"s": np.maximum, "u": np.maximum} if largest else {"s": np.minimum, "u": np.minimum})(
            instruction, rows
        )
    keeps_nan, joins_signs = "NaN" in words, "xorsign" in words
    bits = width(kind)
    is_plain = kind in {"f32", "f64"}
    reads = [
        rows.reader(operand, DTYPES[kind]) if is_plain else bits_reader(operand, bits, rows)
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
        negative = np.logical_xor.reduce([np.signbit(value) for value in values]) if joins_signs else None
        values = [np.abs(value) for value in values] if absolute else values
        values = [flushed(value) for value in values] if flush else values
        result = values[0]
        for value in values[1:]:
            result = pick(result, value)
        if negative is not None:
            result = np.where(negative, -result, result)
        if result.dtype.kind == "f":
            canonical = {"f32": np.uint32(0x7FFFFFFF), "f64": np.uint64(0x7FFFFFFFFFFFFFFF)}.get(kind)
            if canonical is not None and np.isnan(result).any():
                result = np.where(np.isnan(result), canonical.view(result.dtype), result)
        write(wave, result if is_plain else register_of(result, kind))

    return effect


def approximate(compute: Compute) -> Callable[[PtxInstruction, RegisterRows], Effect]:
    """Return a builder of a function of one float32 number; other types go through `general`."""

    def build(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
        if instruction.kind not in {"f32", "f64"}:
            return general(instruction, rows)
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


def sign_copied(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
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


def tested(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    compute = _TESTS[instruction.words[1]]
    read, write = rows.reader(instruction.operands[1], DTYPES[instruction.kind]), rows.writer(instruction.operands[0])
    return lambda wave: write(wave, compute(read(wave)))
