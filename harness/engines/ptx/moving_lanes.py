"""Moves between registers of one thread, and conversions between types."""

from typing import Any

import numpy as np

from harness.engines.ptx.float_lanes import directed
from harness.engines.ptx.lane_forms import ROUND_DOWN, general, joined_reader
from harness.engines.ptx.lane_types import DTYPES
from harness.engines.ptx.memories import WINDOWS
from harness.engines.ptx.ptx_kernel import PtxInstruction, Register, RegisterVector
from harness.engines.ptx.threads import Array
from harness.engines.ptx.wave import Effect, Read, RegisterRows, Wave, Write
from harness.engines.virtual.numbers.elements import flushed
from harness.engines.virtual.operations.ptx_instructions import (
    bits_dtype,
    width,
)
from harness.errors import CannotExecute


def cache_policy(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`createpolicy`: caches are not modelled."""
    write = rows.writer(instruction.operands[0])
    return lambda wave: write(wave, np.zeros(1, np.uint64))


def move(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
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
        read = joined_reader(source, bits, rows)
        return lambda wave: write(wave, read(wave))
    read = rows.reader(source, bits_dtype(bits))
    if isinstance(source, Register) and isinstance(destination, Register):
        return _copied(source, destination, read, write)
    return lambda wave: write(wave, read(wave))


def _copied(source: Register, destination: Register, read: Read, write: Write) -> Effect:
    """Return a copy between registers.  A copy of a result that has yet to land gets it too."""

    def effect(wave: Wave) -> None:
        if wave.asynchronous.products.works:
            wave.asynchronous.copied(source, destination, wave.mask_of_active())
        write(wave, read(wave))

    return effect


def to_address(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
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


def convert(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`cvt` between scalar types; packed and narrow ones go through `general`."""
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
    if not words.isdisjoint(("rz", "rm", "rp", "sat")) or not words.isdisjoint(ROUND_DOWN):
        return _float_conversion(read, write, to, words)
    if "ftz" in words:
        return lambda wave: write(wave, flushed(flushed(read(wave)).astype(to)))
    return lambda wave: write(wave, read(wave).astype(to))


def _float_conversion(read: Read, write: Write, to: type[Any], words: set[str]) -> Effect:
    def effect(wave: Wave) -> None:
        values = read(wave)
        values = flushed(values) if "ftz" in words else values
        for word, round_to in ROUND_DOWN.items():
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
        for word, round_to in ROUND_DOWN.items():
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
    return general(instruction, rows)
