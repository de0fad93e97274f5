"""`tt.elementwise_inline_asm`: packs blocks into registers as Triton does, runs the PTX text, and unpacks the results.

`ptx` executes the text.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from harness.engines.ttir.ir import Operation, Type
from harness.engines.ttir.notation import parse_string
from harness.engines.virtual.machine import Handler, Machine, Value, Values
from harness.engines.virtual.numbers.elements import Array, decode, encode, storage
from harness.engines.virtual.operations.arith import array
from harness.engines.virtual.operations.ptx import Registers, read
from harness.engines.virtual.operations.ptx_instructions import bits_dtype
from harness.engines.virtual.operations.tile import broadcast
from harness.errors import CannotExecute

_clock_reads = itertools.count(1)
NANOSECONDS_PER_CLOCK_READ = 1000
"""Every read of a clock register advances the clock by this much, so loops that wait for a time limit end."""
REGISTER_BITS = 32


@dataclass(frozen=True, slots=True)
class Executed:
    """What the text left in its registers."""

    results: tuple[Array, ...]
    predicates: Mapping[str, Array]
    """By name; a predicate that was set twice has its last value."""


def inline_assembly(machine: Machine, operation: Operation, frame: list[Value]) -> Values:
    """Run the text once for every `packed_element` neighbouring elements of the blocks."""
    return execute(machine, operation, frame).results


def execute(machine: Machine, operation: Operation, frame: list[Value], text: str = "") -> Executed:
    """Run the operation's text, or another one in its place.

    Raises:
        CannotExecute: an instruction or a register is not known.
    """
    text = text or parse_string(operation.keywords[0])
    pack = int(operation.attributes.get("packed_element", 1))  # type: ignore[arg-type]
    constraints = [part.strip() for part in str(operation.attributes["constraints"]).split(",")]
    kinds = operation.operand_types
    operands = [_block(frame[slot], kind) for slot, kind in zip(operation.operands, kinds, strict=True)]
    programs = max(map(len, operands), default=machine.width)
    # Scalars inside a reduction are the elements that it combines, so they have axes that their types do not name.
    lanes = (
        np.broadcast_shapes(*(block.shape[1:] for block in operands)) if operands else operation.result_types[0].shape
    )
    shape = (programs, *lanes)
    blocks = [np.broadcast_to(block, shape) for block in operands]
    runs = -(-prod(shape) // pack)
    registers = Registers(runs, lambda name: np.broadcast_to(_special(machine, name, shape, pack), (runs,)))
    register = sum(constraint.startswith("=") for constraint in constraints)
    for block, kind in zip(blocks, kinds, strict=True):
        for bits in _packed(block, kind, pack):
            registers.put(f"${register}", bits)
            register += 1
    for instruction in read(text):
        registers.run(instruction)
    register, results = 0, list[Array]()
    for kind in operation.result_types:
        per_register = _elements_each(kind, pack)
        parts = [registers.get(f"${register + part}", per_register * kind.bits) for part in range(pack // per_register)]
        register += len(parts)
        results.append(_unpacked(parts, kind, per_register).reshape(-1)[: prod(shape)].reshape(shape))
    return Executed(tuple(results), registers.predicates())


def _block(value: Value, kind: Type) -> Array:
    block = array(value)
    return broadcast(block, kind) if kind.shape else block


def _elements_each(kind: Type, pack: int) -> int:
    """The number of elements that share a register."""
    return min(max(1, REGISTER_BITS // kind.bits), pack)


def _packed(block: Array, kind: Type, pack: int) -> list[Array]:
    """The registers of one operand, each with one element per run of the text."""
    raw = np.ascontiguousarray(encode(np.ascontiguousarray(block), kind.element)).reshape(-1)
    # The last run may have fewer elements: Triton repeats the last one.
    raw = np.pad(raw, (0, -len(raw) % pack), mode="edge").reshape(-1, pack)
    bits = raw.view(bits_dtype(kind.bits))
    per_register = _elements_each(kind, pack)
    whole = bits_dtype(per_register * kind.bits)
    registers: list[Array] = []
    for first in range(0, pack, per_register):
        results = np.zeros(len(bits), whole)
        for part in range(per_register):
            results |= bits[:, first + part].astype(whole) << whole(part * kind.bits)
        registers.append(results)
    return registers


def _unpacked(parts: list[Array], kind: Type, per_register: int) -> Array:
    columns = [
        (part >> part.dtype.type(at * kind.bits)).astype(bits_dtype(kind.bits))
        for part in parts
        for at in range(per_register)
    ]
    raw = np.stack(columns, axis=-1)
    return (raw & 1).astype(np.bool_) if kind.element == "i1" else decode(raw.view(storage(kind.element)), kind.element)


def _special(machine: Machine, name: str, shape: tuple[int, ...], pack: int) -> Array:
    """A special register's value for every run of the text."""
    match name:
        case "%globaltimer" | "%globaltimer_lo" | "%clock" | "%clock64":
            return np.array([next(_clock_reads) * NANOSECONDS_PER_CLOCK_READ])
        case "%smid" | "%nsmid":
            return np.array([0 if name == "%smid" else 1])
        case "%ctaid.x" | "%ctaid.y" | "%ctaid.z":
            ids = machine.program_id(name[-1])
            return np.repeat(ids, -(-prod(shape) // pack) // len(ids))
        case "%nctaid.x" | "%nctaid.y" | "%nctaid.z":
            return np.array([{"x": machine.grid.x, "y": machine.grid.y, "z": machine.grid.z}[name[-1]]])
        case _:
            raise CannotExecute(f"the PTX register {name}")


HANDLERS: Mapping[str, Handler] = {"tt.elementwise_inline_asm": inline_assembly}
