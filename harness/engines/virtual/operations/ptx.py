"""An interpreter of the PTX in inline assembly: straight-line instructions on registers, no memory, no branches.

A register is an array of bits with one element for each run of the text.  `ptx_instructions` is the table of all known
instructions.  Any other instruction ends the case as unsupported, by name.
"""

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from harness.engines.virtual.numbers.elements import Array
from harness.engines.virtual.numbers.exact_pairs import exact_constant
from harness.engines.virtual.operations.ptx_instructions import INSTRUCTIONS, NO_EFFECT, Opcode, bits_dtype
from harness.errors import CannotExecute

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STATEMENT = re.compile(r"[\s{}]*([^;{}\s](?:[^;{}]|\{[^{}]*\})*);")
_GUARD = re.compile(r"@(!?)(%?[\w$]+)\s+")
_IMMEDIATE_F32 = re.compile(r"\b0[fF]([0-9A-Fa-f]{8})\b")
_CONTINUOUS = frozenset(
    "abs add cos div ex2 fma lg2 max min mov mul neg rcp rsqrt selp setp sin sqrt sub tanh".split()  # noqa: SIM905
)
"""Instructions that compute the same in a wider type, but for their rounding."""
_OPERAND = re.compile(r"\{[^{}]*\}|[^,{}]+")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its opcode, its operands as written, and its guard predicate."""

    opcode: Opcode
    operands: tuple[str, ...]
    guard: str = ""
    negated: bool = False


@lru_cache(maxsize=256)
def read(text: str) -> tuple[Instruction, ...]:
    """Parse the instructions of a text; register declarations are skipped.

    Raises:
        CannotExecute: an instruction is not known, or the text cannot be parsed.
    """
    plain = _COMMENT.sub(" ", text).rstrip("} \t\r\n")
    plain = plain if plain.endswith(";") else f"{plain};"
    instructions: list[Instruction] = []
    position = 0
    for match in _STATEMENT.finditer(plain):
        if plain[position : match.start()].strip(" \t\n{}"):
            break
        position = match.end()
        statement = " ".join(match[1].split())
        if not statement.startswith(".reg"):
            instructions.append(_instruction(statement))
    if plain[position:].strip(" \t\n{};"):
        raise CannotExecute(f"assembly that cannot be read: {plain[position:].strip()[:60]!r}")
    return tuple(instructions)


def _instruction(statement: str) -> Instruction:
    guard = _GUARD.match(statement)
    word, _, rest = statement[guard.end() if guard else 0 :].partition(" ")
    opcode = Opcode.read(word)
    if opcode.name not in INSTRUCTIONS and opcode.name not in NO_EFFECT:
        raise CannotExecute(f"the PTX instruction {word}")
    operands = tuple(operand.strip() for operand in _OPERAND.findall(rest) if operand.strip())
    if any(operand.startswith("[") for operand in operands) and opcode.name not in NO_EFFECT:
        raise CannotExecute(f"the PTX instruction {word} on memory")
    return Instruction(opcode, operands, guard[2] if guard else "", bool(guard and guard[1]))


@lru_cache(maxsize=256)
def widened_text(text: str) -> str | None:
    """Return the text with float64 in the place of float32, constants included; None if it computes in other types.

    Raises:
        CannotExecute: as `read`.
    """
    opcodes = [instruction.opcode for instruction in read(text)]
    if any(opcode.name not in _CONTINUOUS or opcode.types != ("f32",) or "sat" in opcode.words for opcode in opcodes):
        return None
    wide = re.sub(r"\.f32\b", ".f64", text.replace(".ftz", ""))
    return _IMMEDIATE_F32.sub(lambda match: f"{exact_constant(_f32(match[1]), 'f32'):.17e}", wide)


def _f32(digits: str) -> float:
    return struct.unpack("<f", struct.pack("<I", int(digits, 16)))[0]


class Registers:
    """The registers of one text: `$0` and so on are operands, others exist from their first write."""

    def __init__(self, count: int, special: Callable[[str], Array]) -> None:
        self._count = count
        self._special = special
        self._values: dict[str, Array] = {}

    def put(self, name: str, bits: Array) -> None:
        """Set a whole register."""
        self._values[name] = bits

    def get(self, name: str, bits: int) -> Array:
        """The low bits of a register or immediate; a register that was never written is zero."""
        dtype = bits_dtype(bits)
        if name in self._values:
            value = self._values[name]
            return value if value.dtype == np.bool_ else value.astype(dtype)
        if name.startswith("%") and not name.removeprefix("%")[0].isdigit():
            return self._special(name).astype(dtype)
        immediate = _immediate(name, bits)
        return np.full(self._count, 0 if immediate is None else immediate, dtype)

    def predicates(self) -> dict[str, Array]:
        """Return the registers that hold a truth value."""
        return {name: value for name, value in self._values.items() if value.dtype == np.bool_}

    def run(self, instruction: Instruction) -> None:
        """Execute one instruction."""
        opcode = instruction.opcode
        if opcode.name in NO_EFFECT:
            return
        destination, *sources = instruction.operands
        result = INSTRUCTIONS[opcode.name](
            opcode, [self._source(opcode, position, text) for position, text in enumerate(sources)]
        )
        targets = [part.strip() for part in destination.strip("{}").replace("|", ",").split(",")]
        parts = _split(result, len(targets)) if isinstance(result, np.ndarray) else result
        for target, part in zip(targets, parts, strict=False):
            self._values[target] = self._guarded(instruction, target, part) if instruction.guard else part

    def _guarded(self, instruction: Instruction, target: str, result: Array) -> Array:
        is_active = self.get(instruction.guard, 8).astype(np.bool_) != instruction.negated
        old_value = self._values.get(target)
        return np.where(
            is_active, result, np.zeros_like(result) if old_value is None else old_value.astype(result.dtype)
        )

    def _source(self, opcode: Opcode, position: int, text: str) -> Array:
        bits = opcode.source_bits(position)
        if not text.startswith("{"):
            return self.get(text, bits)
        names = [part.strip() for part in text.strip("{}").split(",")]
        return _joined([self.get(name, bits // len(names)) for name in names], bits)


def _joined(parts: Sequence[Array], bits: int) -> Array:
    """Concatenate parts into one register, the first part lowest."""
    each, dtype = bits // len(parts), bits_dtype(bits)
    result = np.zeros(len(parts[0]), dtype)
    for position, part in enumerate(parts):
        result |= (part.astype(dtype) & dtype((1 << each) - 1)) << dtype(position * each)
    return result


def _split(result: Array, count: int) -> list[Array]:
    """Split a register into `count` parts, the lowest first."""
    if count == 1:
        return [result]
    each = result.dtype.itemsize * 8 // count
    return [(result >> result.dtype.type(position * each)).astype(bits_dtype(each)) for position in range(count)]


def _immediate(text: str, bits: int) -> int | None:
    """An immediate's bits; None if the text is not an immediate."""
    if re.fullmatch(r"0[fF][0-9A-Fa-f]{8}|0[dD][0-9A-Fa-f]{16}", text):
        return int(f"0x{text[2:]}", 0)
    if re.fullmatch(r"-?(0[xX][0-9A-Fa-f]+|\d+)[uU]?", text):
        return int(text.rstrip("uU"), 0) & ((1 << bits) - 1)
    if re.fullmatch(r"-?\d+\.\d*(?:[eE][+-]?\d+)?", text):
        pair = ("<d", "<Q") if bits == 64 else ("<f", "<I")
        return struct.unpack(pair[1], struct.pack(pair[0], float(text)))[0]
    return None
