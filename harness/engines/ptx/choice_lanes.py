"""Comparisons of one thread, and what is chosen by them."""

import numpy as np

from harness.engines.ptx.lane_forms import bits_reader, split_writers
from harness.engines.ptx.lane_types import DTYPES
from harness.engines.ptx.ptx_kernel import PtxInstruction
from harness.engines.ptx.wave import Effect, RegisterRows, Wave
from harness.engines.virtual.numbers.elements import flushed
from harness.engines.virtual.operations.ptx_instructions import (
    parts_of,
    register_of,
    relation,
    width,
)


def compare(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`setp`, with the predicate that its result may be combined with."""
    kind, words = instruction.kind, instruction.words
    operands = instruction.operands
    combine = next((word for word in ("and", "or", "xor") if word in words), "")
    if kind not in DTYPES:
        return _packed_compare(instruction, rows)
    dtype = DTYPES[kind]
    holds = relation(words[1], is_float=kind[0] == "f")
    left, right = (rows.reader(operand, dtype) for operand in operands[1:3])
    writes = split_writers(operands[0], rows)
    flush = "ftz" in words
    with_predicate = rows.reader(operands[3], np.bool_) if combine else None
    join = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}.get(combine)

    def effect(wave: Wave) -> None:
        first, second = left(wave), right(wave)
        if flush:
            first, second = flushed(first), flushed(second)
        result = holds(first, second)
        values = [result, ~result] if len(writes) > 1 else [result]
        if join is not None and with_predicate is not None:
            values = [join(value, with_predicate(wave)) for value in values]
        for write, value in zip(writes, values, strict=True):
            write(wave, value)

    return effect


def set_where(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`set`: one, or all bits of an integer, where a comparison holds; for packed numbers each on its own."""
    target, source = instruction.words[-2:]
    compared = relation(instruction.words[1], is_float=source[0] in "fb" and not source.startswith("b3"))
    reads = [bits_reader(operand, width(source), rows) for operand in instruction.operands[1:3]]
    write = rows.writer(instruction.operands[0])
    is_integer = target[0] in "su"

    def effect(wave: Wave) -> None:
        left, right = (
            parts_of(np.ascontiguousarray(np.broadcast_to(read(wave), (wave.size,))), source) for read in reads
        )
        holds = compared(left, right)
        if is_integer:
            write(wave, np.where(holds[..., 0], np.uint32(0xFFFFFFFF), np.uint32(0)))
        else:
            write(wave, register_of(holds.astype(np.float32), target))

    return effect


def _packed_compare(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    kind = instruction.kind
    bits = width(kind)
    holds = relation(instruction.words[1], is_float=True)
    reads = [bits_reader(operand, bits, rows) for operand in instruction.operands[1:3]]
    writes = split_writers(instruction.operands[0], rows)

    def effect(wave: Wave) -> None:
        left, right = (
            parts_of(np.ascontiguousarray(np.broadcast_to(read(wave), (wave.size,))), kind) for read in reads
        )
        result = holds(left, right)
        parts = [result[..., 0], result[..., 1]] if result.shape[-1] == 2 else [result[..., 0], ~result[..., 0]]
        for write, part in zip(writes, parts, strict=False):
            write(wave, part)

    return effect


def select(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    dtype = DTYPES[f"b{width(instruction.kind)}"]
    left, right = (rows.reader(operand, dtype) for operand in instruction.operands[1:3])
    chosen = rows.reader(instruction.operands[3], np.bool_)
    write = rows.writer(instruction.operands[0])
    return lambda wave: write(wave, np.where(chosen(wave), left(wave), right(wave)))


def select_by_sign(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`slct`: the first number where the third is not negative."""
    dtype = DTYPES[f"b{width(instruction.words[-2])}"]
    left, right = (rows.reader(operand, dtype) for operand in instruction.operands[1:3])
    sign, write = rows.reader(instruction.operands[3], DTYPES[instruction.kind]), rows.writer(instruction.operands[0])
    return lambda wave: write(wave, np.where(sign(wave) >= 0, left(wave), right(wave)))
