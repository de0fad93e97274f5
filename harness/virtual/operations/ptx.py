"""Runs PTX as inline assembly holds it: straight-line instructions on registers, no memory, no branches.

A register is an array of bits, one element for each time the text is executed.  What each instruction computes is in
`ptx_instructions`, the one table of what is known; anything else ends the case as unsupported, by name.
"""

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from harness.errors import CannotExecute
from harness.virtual.numbers.elements import Array
from harness.virtual.operations.ptx_instructions import INSTRUCTIONS, SILENT, Opcode, bits_dtype

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STATEMENT = re.compile(r"[\s{}]*([^;{}\s](?:[^;{}]|\{[^{}]*\})*);")
_GUARD = re.compile(r"@(!?)(%?[\w$]+)\s+")
_OPERAND = re.compile(r"\{[^{}]*\}|[^,{}]+")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its opcode, its operands as written, and the predicate that guards it."""

    opcode: Opcode
    operands: tuple[str, ...]
    guard: str = ""
    negated: bool = False


@lru_cache(maxsize=256)
def read(text: str) -> tuple[Instruction, ...]:
    """The instructions of a text; its declarations of registers say nothing that is needed.

    Raises:
        CannotExecute: an instruction is not known.
    """
    plain = _COMMENT.sub(" ", text).rstrip("} \t\r\n")
    plain = plain if plain.endswith(";") else f"{plain};"
    instructions: list[Instruction] = []
    at = 0
    for found in _STATEMENT.finditer(plain):
        if plain[at : found.start()].strip(" \t\n{}"):
            break
        at = found.end()
        statement = " ".join(found[1].split())
        if not statement.startswith(".reg"):
            instructions.append(_instruction(statement))
    if plain[at:].strip(" \t\n{};"):
        raise CannotExecute(f"assembly that cannot be read: {plain[at:].strip()[:60]!r}")
    return tuple(instructions)


def _instruction(statement: str) -> Instruction:
    guard = _GUARD.match(statement)
    word, _, rest = statement[guard.end() if guard else 0 :].partition(" ")
    opcode = Opcode.read(word)
    if opcode.name not in INSTRUCTIONS and opcode.name not in SILENT:
        raise CannotExecute(f"the PTX instruction {word}")
    operands = tuple(operand.strip() for operand in _OPERAND.findall(rest) if operand.strip())
    if any(operand.startswith("[") for operand in operands) and opcode.name not in SILENT:
        raise CannotExecute(f"the PTX instruction {word} on memory")
    return Instruction(opcode, operands, guard[2] if guard else "", bool(guard and guard[1]))


class Registers:
    """The registers while a text runs: `$0` and its like are given, others come with their first writing."""

    def __init__(self, count: int, special: Callable[[str], Array]) -> None:
        self._count = count
        self._special = special
        self._held: dict[str, Array] = {}

    def put(self, name: str, bits: Array) -> None:
        """Set a whole register."""
        self._held[name] = bits

    def get(self, name: str, bits: int) -> Array:
        """A register's low bits, or an immediate's; a register that was never written is zero."""
        dtype = bits_dtype(bits)
        if name in self._held:
            held = self._held[name]
            return held if held.dtype == np.bool_ else held.astype(dtype)
        if name.startswith("%") and not name.removeprefix("%")[0].isdigit():
            return self._special(name).astype(dtype)
        immediate = _immediate(name, bits)
        return np.full(self._count, 0 if immediate is None else immediate, dtype)

    def run(self, instruction: Instruction) -> None:
        """Execute one instruction."""
        opcode = instruction.opcode
        if opcode.name in SILENT:
            return
        destination, *sources = instruction.operands
        made = INSTRUCTIONS[opcode.name](opcode, [self._source(opcode, at, text) for at, text in enumerate(sources)])
        targets = [part.strip() for part in destination.strip("{}").replace("|", ",").split(",")]
        parts = _split(made, len(targets)) if isinstance(made, np.ndarray) else made
        for target, part in zip(targets, parts, strict=False):
            self._held[target] = self._guarded(instruction, target, part) if instruction.guard else part

    def _guarded(self, instruction: Instruction, target: str, made: Array) -> Array:
        chosen = self.get(instruction.guard, 8).astype(np.bool_) != instruction.negated
        before = self._held.get(target)
        return np.where(chosen, made, np.zeros_like(made) if before is None else before.astype(made.dtype))

    def _source(self, opcode: Opcode, at: int, text: str) -> Array:
        bits = opcode.source_bits(at)
        if not text.startswith("{"):
            return self.get(text, bits)
        names = [part.strip() for part in text.strip("{}").split(",")]
        return _joined([self.get(name, bits // len(names)) for name in names], bits)


def _joined(parts: Sequence[Array], bits: int) -> Array:
    """Parts as one register, the first lowest."""
    each, dtype = bits // len(parts), bits_dtype(bits)
    made = np.zeros(len(parts[0]), dtype)
    for at, part in enumerate(parts):
        made |= (part.astype(dtype) & dtype((1 << each) - 1)) << dtype(at * each)
    return made


def _split(made: Array, count: int) -> list[Array]:
    """One register as parts, the lowest first."""
    if count == 1:
        return [made]
    each = made.dtype.itemsize * 8 // count
    return [(made >> made.dtype.type(at * each)).astype(bits_dtype(each)) for at in range(count)]


def _immediate(text: str, bits: int) -> int | None:
    """An immediate's bits; None for what is none."""
    if re.fullmatch(r"0[fF][0-9A-Fa-f]{8}|0[dD][0-9A-Fa-f]{16}", text):
        return int(f"0x{text[2:]}", 0)
    if re.fullmatch(r"-?(0[xX][0-9A-Fa-f]+|\d+)[uU]?", text):
        return int(text.rstrip("uU"), 0) & ((1 << bits) - 1)
    if re.fullmatch(r"-?\d+\.\d*(?:[eE][+-]?\d+)?", text):
        pair = ("<d", "<Q") if bits == 64 else ("<f", "<I")
        return struct.unpack(pair[1], struct.pack(pair[0], float(text)))[0]
    return None
