"""Loads, stores, atomics and pointer arithmetic: what they hand to `memory`."""

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from harness.errors import CannotExecute
from harness.model.case import LaneFill
from harness.virtual.elements import Array, carrier, decode, encode, rounded, unsigned
from harness.virtual.events import Place
from harness.virtual.ir import Operation, Type
from harness.virtual.machine import Handler, Machine, Value
from harness.virtual.memory import Step
from harness.virtual.operations_arith import array
from harness.virtual.pointers import Pointers
from harness.virtual.rows import Rows

ODD_FILL = 101


def pointers(value: Value) -> Pointers:
    """A value that must be a pointer with known provenance."""
    if not isinstance(value, Pointers):
        raise CannotExecute("a pointer that was computed from an integer")
    return value


def add_pointer(machine: Machine, operation: Operation, frame: list[Value]) -> Pointers:
    """`tt.addptr`."""
    del machine
    base, offset = (frame[slot] for slot in operation.operands)
    return pointers(base).plus(array(offset))


def load(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.load`, with optional mask and `other`; without `other`, masked-off lanes hold the case's lane fill."""
    where = pointers(frame[operation.operands[0]])
    kind = operation.result_types[0]
    rank = 1 + len(kind.shape)
    mask = array(frame[operation.operands[1]]) if len(operation.operands) > 1 else None
    other: Array
    if len(operation.operands) > 2:
        other = array(frame[operation.operands[2]])
    else:
        other = _undefined(machine, kind) if mask is not None else np.zeros((1,) * rank, carrier(kind.element))
        if mask is not None and not mask.all():
            _note_undefined(machine, (operation.location, where.argument), kind, mask)
    if operation.attributes.get("isVolatile"):
        machine.polled.add(where.argument)
    mask = machine.with_active(mask, rank)
    return machine.memory.load(Step(operation.location, where, kind, mask, machine.numbers), other)


def _note_undefined(machine: Machine, place: Place, kind: Type, mask: Array) -> None:
    """Count the lanes that the programs taking part leave undefined."""
    off = machine.with_active(~mask, mask.ndim)
    assert off is not None
    lanes = int(np.count_nonzero(off)) * (machine.width * prod(kind.shape) // off.size)
    if lanes:
        machine.memory.events.undefined(place, lanes)


def _undefined(machine: Machine, kind: Type) -> Array:
    """What undefined lanes hold in this case."""
    fill = ODD_FILL if machine.lane_fill is LaneFill.ODD else 0
    return np.full((1,) * (1 + len(kind.shape)), fill, carrier(kind.element))


def store(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """`tt.store`, with an optional mask."""
    where = pointers(frame[operation.operands[0]])
    value = array(frame[operation.operands[1]])
    kind = operation.operand_types[1]
    mask = array(frame[operation.operands[2]]) if len(operation.operands) > 2 else None
    mask = machine.with_active(mask, value.ndim)
    machine.memory.store(Step(operation.location, where, kind, mask, machine.numbers), value)


# --- atomics: lanes one after the other, in the order of programs and lanes ---


def _exchange(old: Array, new: Array) -> Array:
    del old
    return new


_ATOMICS: dict[str, Callable[[Array, Array], Array]] = {
    "fadd": np.add,
    "add": np.add,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "max": np.maximum,
    "min": np.minimum,
    "umax": lambda old, new: np.maximum(unsigned(old), unsigned(new)).view(old.dtype),
    "umin": lambda old, new: np.minimum(unsigned(old), unsigned(new)).view(old.dtype),
    "exch": _exchange,
}


def atomic(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.atomic_rmw`: each lane sees what the lanes before it left; returns what each saw."""
    kind = operation.operand_types[1]
    update = _ATOMICS.get(operation.words[0])
    if update is None:
        raise CannotExecute(f"atomic {operation.words[0]}")
    where = pointers(frame[operation.operands[0]])
    value = array(frame[operation.operands[1]])
    shape = (machine.width, *kind.shape)
    mask = array(frame[operation.operands[2]]) if len(operation.operands) > 2 else None
    mask = machine.with_active(mask, value.ndim)
    rows, flat = machine.memory.atomic(Step(operation.location, where, kind, mask, machine.numbers))
    seen = np.zeros(shape, carrier(kind.element))
    if flat is None:
        return seen
    given = rows.take(value, shape)[:, 0]

    def replace(old: Array, lanes: Array) -> Array:
        return update(old, given[lanes])

    seen.reshape(-1)[_lanes_of(rows)] = _apply(flat, rows.starts, replace, kind.element)
    return seen


def compare_and_swap(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.atomic_cas`: the new value goes in where the old one is as expected; returns what each lane saw."""
    kind = operation.operand_types[1]
    where = pointers(frame[operation.operands[0]])
    expected, new = (array(frame[slot]) for slot in operation.operands[1:3])
    shape = (machine.width, *kind.shape)
    mask = machine.with_active(None, expected.ndim)
    rows, flat = machine.memory.atomic(Step(operation.location, where, kind, mask, machine.numbers))
    seen = np.zeros(shape, carrier(kind.element))
    if flat is None:
        return seen
    wanted, given = (rows.take(value, shape)[:, 0] for value in (expected, new))

    def swap(old: Array, lanes: Array) -> Array:
        return np.where(old == wanted[lanes], given[lanes], old)

    seen.reshape(-1)[_lanes_of(rows)] = _apply(flat, rows.starts, swap, kind.element)
    return seen


def _lanes_of(rows: Rows) -> Array:
    return np.arange(rows.block[0]) if rows.picked is None else rows.picked


def _apply(flat: Array, cells: Array, update: Callable[[Array, Array], Array], element: str) -> Array:
    """Wave after wave: in each, every cell takes the next of its lanes, so that equal cells are served in order.

    `update` makes the new contents of the old ones and the lanes' indices.
    """
    seen = np.empty(len(cells), carrier(element))
    order = np.argsort(cells, kind="stable")
    ordered = cells[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    turn = np.arange(len(cells)) - np.repeat(first, np.diff(np.r_[first, len(cells)]))
    for wave in range(int(turn.max()) + 1):
        lanes = order[turn == wave]
        old = decode(flat[cells[lanes]], element)
        seen[lanes] = old
        flat[cells[lanes]] = encode(rounded(update(old, lanes), element), element)
    return seen


HANDLERS: Mapping[str, Handler] = {
    "tt.addptr": add_pointer,
    "tt.load": load,
    "tt.store": store,
    "tt.atomic_rmw": atomic,
    "tt.atomic_cas": compare_and_swap,
}
