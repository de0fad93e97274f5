"""Additions, subtractions and products that hand a carry on to the next instruction: `add.cc`, `addc`, `madc.hi.cc`."""

import numpy as np

from harness.engines.ptx.lane_types import DTYPES
from harness.engines.ptx.ptx_kernel import PtxInstruction
from harness.engines.ptx.threads import Array
from harness.engines.ptx.wave import Effect, RegisterRows, Wave
from harness.errors import CannotExecute

CARRYING = frozenset({"addc", "subc", "madc"})
"""Instructions that take the carry of an earlier one."""


def uses_carry(instruction: PtxInstruction) -> bool:
    return instruction.root in CARRYING or "cc" in instruction.words


def carry_effect(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """Return the effect of an instruction that takes or leaves a carry.

    Raises:
        CannotExecute: it is neither a sum, a difference nor a product.
    """
    root, kind = instruction.root, instruction.kind
    takes, leaves = root in CARRYING, "cc" in instruction.words
    operation = root[:-1] if takes else root
    if operation not in {"add", "sub", "mad"} or kind[0] not in "bsu":
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    dtype = DTYPES[f"u{kind[1:]}"]
    reads = [rows.reader(operand, dtype) for operand in instruction.operands[1:]]
    write, is_high, signed = rows.writer(instruction.operands[0]), "hi" in instruction.words, kind[0] == "s"

    def effect(wave: Wave) -> None:
        values = [read(wave) for read in reads]
        carried = wave.carry.astype(dtype) if takes else dtype(0)
        if operation == "sub":
            result = values[0] - values[1]
            carry = (values[0] < values[1]) | (result < carried)
            result = result - carried
        else:
            addend = values[-1]
            first = _product(values[0], values[1], is_high, signed) if operation == "mad" else values[0]
            partial = first + addend
            result = partial + carried
            carry = (partial < first) | (result < partial)
        write(wave, result)
        if leaves:
            active = slice(None) if wave.mask is None else wave.mask
            wave.carry[active] = np.broadcast_to(carry, (wave.size,))[active]

    return effect


def _product(left: Array, right: Array, is_high: bool, signed: bool) -> Array:  # noqa: FBT001 - facts of an opcode
    if not is_high:
        return left * right
    if left.dtype.itemsize < 8:
        wide = np.int64 if signed else np.uint64
        narrow = left.dtype.str.replace("u", "i") if signed else left.dtype
        product = left.view(narrow).astype(wide) * right.view(narrow).astype(wide)
        return (product >> wide(8 * left.dtype.itemsize)).astype(left.dtype)
    return (
        high_product(left.view(np.int64), right.view(np.int64)).view(np.uint64) if signed else high_product(left, right)
    )


def high_product(left: Array, right: Array) -> Array:
    """Return the upper 64 bits of the product of two 64-bit integers."""
    a, b = np.broadcast_arrays(left.view(np.uint64), right.view(np.uint64))
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a_low, a_high, b_low, b_high = a & low, a >> half, b & low, b >> half
    middle = a_high * b_low + (a_low * b_low >> half)
    other = a_low * b_high + (middle & low)
    high = a_high * b_high + (middle >> half) + (other >> half)
    if left.dtype.kind == "i":
        high = high - np.where(left < 0, b, np.uint64(0)) - np.where(right < 0, a, np.uint64(0))
        return high.view(np.int64)
    return high
