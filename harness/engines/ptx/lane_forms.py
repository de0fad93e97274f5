"""Forms of instructions of one thread: a function for each type, or what inline assembly in TTIR executes."""

from collections.abc import Callable, Mapping

import numpy as np

from harness.engines.ptx.lane_types import DTYPES
from harness.engines.ptx.ptx_kernel import Operand, Pair, PtxInstruction, RegisterVector
from harness.engines.ptx.threads import Array
from harness.engines.ptx.wave import Effect, Read, RegisterRows, Wave, Write
from harness.engines.virtual.numbers.elements import flushed
from harness.engines.virtual.operations.ptx_instructions import (
    INSTRUCTIONS,
    Opcode,
    bits_dtype,
)
from harness.errors import CannotExecute

Compute = Callable[..., Array]
Build = Callable[[PtxInstruction, RegisterRows], Effect]
ROUND_DOWN: Mapping[str, Compute] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
"""By word, how a number is rounded to an integer."""


def simple(table: Mapping[str, Compute]) -> Callable[[PtxInstruction, RegisterRows], Effect]:
    """Return a builder of instructions whose operands and result have one type.

    `table` has a function for the first letter of the type: `f` for f32 and f64, `s`, `u`, `b`, `p`.  Others are packed
    or narrow floating-point types.
    """

    def build(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
        kind = instruction.kind
        dtype = DTYPES.get(kind)
        compute = table.get(kind[0]) if dtype is not None else None
        if compute is None or dtype is None or "sat" in instruction.words:
            return general(instruction, rows)
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


def general(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """Return an instruction as inline assembly executes it.

    Raises:
        CannotExecute: the instruction is not known there.
    """
    opcode = Opcode.read(instruction.opcode)
    compute = INSTRUCTIONS.get(opcode.name)
    if compute is None or not opcode.types:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    destination, *sources = instruction.operands
    reads = [bits_reader(operand, opcode.source_bits(position), rows) for position, operand in enumerate(sources)]
    writes = split_writers(destination, rows)

    def effect(wave: Wave) -> None:
        result = compute(opcode, [np.broadcast_to(read(wave), (wave.size,)) for read in reads])
        parts = [result] if isinstance(result, np.ndarray) else result
        for write, part in zip(writes, parts, strict=False):
            write(wave, part)

    return effect


def bits_reader(operand: Operand, bits: int, rows: RegisterRows) -> Read:
    if isinstance(operand, RegisterVector):
        return joined_reader(operand, bits, rows)
    return rows.reader(operand, bits_dtype(bits))


def joined_reader(vector: RegisterVector, bits: int, rows: RegisterRows) -> Read:
    """Return a reader of several registers as one, the first lowest."""
    each, dtype = bits // len(vector.parts), bits_dtype(bits)
    reads = [rows.reader(part, bits_dtype(each)) for part in vector.parts]

    def read(wave: Wave) -> Array:
        result = np.zeros(1, dtype)
        for position, part in enumerate(reads):
            result = result | part(wave).astype(dtype) << dtype(position * each)
        return result

    return read


def split_writers(destination: Operand, rows: RegisterRows) -> list[Write]:
    """Return writers of the results: one, or the two of a pair."""
    if isinstance(destination, Pair):
        return [rows.writer(destination.first), rows.writer(destination.second)]
    return [rows.writer(destination)]
