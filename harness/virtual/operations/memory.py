"""Loads, stores and pointer arithmetic: what they hand to `memory`."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from harness.errors import CannotExecute
from harness.model.case import LaneFill
from harness.virtual.machine import Handler, Machine, Value
from harness.virtual.memory.accesses import Step
from harness.virtual.memory.events import Place
from harness.virtual.memory.pointers import Pointers, Several
from harness.virtual.numbers.elements import Array, carrier
from harness.virtual.operations.arith import array
from harness.virtual.ttir.ir import Operation, Type

ODD_FILL = 101


def pointers(value: Value) -> Pointers | Several:
    """A value that must be a pointer."""
    if not isinstance(value, Pointers | Several):
        raise CannotExecute("a number where a pointer is expected")
    return value


def add_pointer(machine: Machine, operation: Operation, frame: list[Value]) -> Pointers | Several:
    """`tt.addptr`."""
    del machine
    base, offset = (frame[slot] for slot in operation.operands)
    return pointers(base).plus(array(offset))


def each_way(where: Pointers | Several, mask: Array | None) -> Iterator[tuple[Pointers, Array | None]]:
    """The accesses that an access comes to: one for each argument that its pointers lead into."""
    if isinstance(where, Pointers):
        yield where, mask
        return
    for chosen, way in where.ways:
        yield way, chosen if mask is None else mask & chosen


def put_together(where: Pointers | Several, parts: Sequence[Array]) -> Array:
    """What each way's access made, one block again."""
    made = parts[0]
    if isinstance(where, Several):
        for (chosen, _), part in zip(where.ways[1:], parts[1:], strict=True):
            made = np.where(chosen, part, made)
    return made


def load(machine: Machine, operation: Operation, frame: list[Value]) -> Value:
    """`tt.load`, with optional mask and `other`; without `other`, masked-off lanes hold the case's lane fill."""
    kind = operation.result_types[0]
    if kind.is_pointer:
        assert kind.pointee is not None
        numbers = _load(machine, operation, frame, kind.of("i64"))
        return machine.pointers_at(numbers, kind.pointee.bytes)
    return _load(machine, operation, frame, kind)


def _load(machine: Machine, operation: Operation, frame: list[Value], kind: Type) -> Array:
    where = pointers(frame[operation.operands[0]])
    rank = 1 + len(kind.shape)
    mask = array(frame[operation.operands[1]]) if len(operation.operands) > 1 else None
    other: Array
    if len(operation.operands) > 2:
        other = array(frame[operation.operands[2]])
    else:
        other = undefined(machine, kind) if mask is not None else np.zeros((1,) * rank, carrier(kind.element))
    notes = mask is not None and len(operation.operands) < 3 and not mask.all()
    volatile = bool(operation.attributes.get("isVolatile"))
    parts: list[Array] = []
    for way, taken in each_way(where, mask):
        if notes and taken is not None:
            _note_undefined(machine, (operation.location, way.argument), kind, taken)
        active = machine.with_active(taken, rank)
        step = Step(operation.location, way, kind, active, machine.numbers, volatile=volatile)
        parts.append(machine.memory.load(step, other))
    return put_together(where, parts)


def _note_undefined(machine: Machine, place: Place, kind: Type, mask: Array) -> None:
    """Count the lanes that the programs taking part leave undefined."""
    off = machine.with_active(~mask, mask.ndim)
    assert off is not None
    lanes = int(np.count_nonzero(off)) * (machine.width * prod(kind.shape) // off.size)
    if lanes:
        machine.memory.events.undefined(place, lanes)


def undefined(machine: Machine, kind: Type) -> Array:
    """What undefined lanes hold in this case."""
    fill = ODD_FILL if machine.lane_fill is LaneFill.ODD else 0
    return np.full((1,) * (1 + len(kind.shape)), fill, carrier(kind.element))


def store(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """`tt.store`, with an optional mask."""
    where = pointers(frame[operation.operands[0]])
    value = array(frame[operation.operands[1]])
    kind = operation.operand_types[1]
    mask = array(frame[operation.operands[2]]) if len(operation.operands) > 2 else None
    for way, taken in each_way(where, mask):
        active = machine.with_active(taken, value.ndim)
        machine.memory.store(Step(operation.location, way, kind, active, machine.numbers), value)


HANDLERS: Mapping[str, Handler] = {
    "tt.addptr": add_pointer,
    "tt.load": load,
    "tt.store": store,
}
