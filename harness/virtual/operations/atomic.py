"""Atomics: lanes one after the other, in the order of programs and lanes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from harness.errors import CannotExecute
from harness.virtual.machine import Handler, Lap, Machine, Value
from harness.virtual.memory.accesses import Step
from harness.virtual.memory.pointers import Pointers, Several
from harness.virtual.memory.rows import Rows
from harness.virtual.numbers.elements import Array, bits_of, carrier, decode, encode, rounded, unsigned
from harness.virtual.operations.arith import array
from harness.virtual.operations.memory import each_way, pointers, put_together
from harness.virtual.ttir.ir import Operation, Type
from harness.virtual.ttir.waiting_kernels import POLL


def _exchange(old: Array, new: Array) -> Array:
    del old
    return new


UPDATES: dict[str, Callable[[Array, Array], Array]] = {
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


@dataclass(frozen=True, slots=True)
class Atomic:
    """One atomic of all programs that run side by side, and what it makes of what it finds."""

    location: str
    where: Pointers | Several
    kind: Type
    mask: Array | None
    words: tuple[str, ...]
    """Its kind, memory order and scope."""
    operands: tuple[Array, ...]
    update: Callable[..., Array]
    """New contents from old ones and the operands' lanes."""


def perform(machine: Machine, atomic: Atomic) -> Array:
    """Carry it out; returns what each lane saw."""
    shape = (machine.width, *atomic.kind.shape)
    parts = [_at(machine, atomic, way, mask, shape) for way, mask in each_way(atomic.where, atomic.mask)]
    return put_together(atomic.where, parts)


def _at(machine: Machine, atomic: Atomic, way: Pointers, mask: Array | None, shape: tuple[int, ...]) -> Array:
    active = machine.with_active(mask, len(shape))
    rows, flat = machine.memory.atomic(Step(atomic.location, way, atomic.kind, active, machine.numbers, atomic.words))
    seen = np.zeros(shape, carrier(atomic.kind.element))
    if flat is None:
        return seen
    given = [rows.take(operand, shape)[:, 0] for operand in atomic.operands]

    def replace(old: Array, lanes: Array) -> Array:
        return atomic.update(old, *[operand[lanes] for operand in given])

    seen.reshape(-1)[_lanes_of(rows)] = _apply(flat, rows.starts, replace, atomic.kind.element)
    return seen


def modify(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.atomic_rmw`: each lane sees what the lanes before it left; returns what each saw."""
    update = UPDATES.get(operation.words[0])
    if update is None:
        raise CannotExecute(f"atomic {operation.words[0]}")
    where, value, *mask = (frame[slot] for slot in operation.operands)
    return perform(
        machine,
        Atomic(
            operation.location,
            pointers(where),
            operation.operand_types[1],
            array(mask[0]) if mask else None,
            operation.words,
            (array(value),),
            update,
        ),
    )


def _swap(old: Array, expected: Array, new: Array) -> Array:
    """GPUs compare bits: a NaN equals itself, and the two zeros differ."""
    return np.where(bits_of(old) == bits_of(expected), new, old)


def compare_and_swap(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.atomic_cas`: the new value goes in where the old one is as expected; returns what each lane saw."""
    where, expected, new = (frame[slot] for slot in operation.operands)
    words = ("cas", *operation.words)
    operands = (array(expected), array(new))
    kind = operation.operand_types[1]
    return perform(machine, Atomic(operation.location, pointers(where), kind, None, words, operands, _swap))


def _keep(old: Array) -> Array:
    return old


def load(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.atomic_load` (Triton 3.9)."""
    where, *mask = (frame[slot] for slot in operation.operands)
    masked = array(mask[0]) if mask else None
    kind = operation.result_types[0]
    words = ("load", *operation.words)
    return perform(machine, Atomic(operation.location, pointers(where), kind, masked, words, (), _keep))


def store(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """`tt.atomic_store` (Triton 3.9)."""
    where, value, *mask = (frame[slot] for slot in operation.operands)
    masked = array(mask[0]) if mask else None
    kind = operation.operand_types[1]
    words = ("exch", *operation.words)
    perform(machine, Atomic(operation.location, pointers(where), kind, masked, words, (array(value),), _exchange))


def poll(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.atomic_poll` (Triton 3.9): looks until every lane has seen what it expects.

    With a time limit it looks twice: nobody says how long a trip takes.
    """
    where, expected, *limit = (frame[slot] for slot in operation.operands)
    kind, words = operation.operand_types[1], ("load", *(word for word in operation.words if word != "timeout"))
    wanted = array(expected)
    met = np.zeros((machine.width, *kind.shape), np.bool_)
    lap: Lap = None
    for trip in range(PATIENCE):
        seen = perform(machine, Atomic(operation.location, pointers(where), kind, ~met, words, (), _keep))
        met = met | (seen == wanted)
        waits = machine.with_active(~met, met.ndim)
        assert waits is not None
        if not waits.any() or (limit and trip):
            machine.left_loop()
            return met
        lap = machine.back_edge(lap, (seen,))
    raise CannotExecute(f"a poll that sees nothing new in {PATIENCE} trips")


PATIENCE = 100_000
"""Looks of one poll after which the case ends as unsupported."""


ONE_LANE = np.zeros(1, np.int64)


def _lanes_of(rows: Rows) -> Array:
    return np.arange(rows.block[0]) if rows.picked is None else rows.picked


def _apply(flat: Array, cells: Array, update: Callable[[Array, Array], Array], element: str) -> Array:
    """Wave after wave: in each, every cell takes the next of its lanes, so that equal cells are served in order.

    `update` makes the new contents of the old ones and the lanes' indices.
    """
    if len(cells) == 1:  # most atomics that programs wait by
        old = decode(flat[cells], element)
        flat[cells] = encode(rounded(update(old, ONE_LANE), element), element)
        return old
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
    "tt.atomic_rmw": modify,
    "tt.atomic_cas": compare_and_swap,
    "tt.atomic_load": load,
    "tt.atomic_store": store,
    POLL: poll,
}
