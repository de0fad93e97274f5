"""Atomics.  They are applied one after the other, in the order of programs and of lanes within a program."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from harness.engines.ttir.ir import Operation, Type
from harness.engines.ttir.waiting_kernels import POLL
from harness.engines.virtual.machine import Handler, LoopState, Machine, Value
from harness.engines.virtual.memory.accesses import BlockAccess
from harness.engines.virtual.memory.pointers import MixedPointers, Pointers, split_by_argument
from harness.engines.virtual.memory.rows import Rows
from harness.engines.virtual.numbers.elements import Array, bits_of, carrier, decode, encode, rounded, unsigned
from harness.engines.virtual.operations.arith import array
from harness.engines.virtual.operations.memory import merge_by_argument, pointers
from harness.errors import CannotExecute


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
    """One atomic operation of all programs that run side by side."""

    location: str
    address: Pointers | MixedPointers
    kind: Type
    mask: Array | None
    words: tuple[str, ...]
    """Read-modify-write kind, memory order and scope."""
    operands: tuple[Array, ...]
    update: Callable[..., Array]
    """Computes a cell's new value from its old value and the operands of the same lanes."""
    is_store: bool = False
    """Nothing uses the old value, and the new one does not depend on it."""


def perform(machine: Machine, atomic: Atomic) -> Array:
    """Apply the atomic and return the old value that each lane saw."""
    shape = (machine.width, *atomic.kind.shape)
    parts = [
        _apply_to_argument(machine, atomic, target, mask, shape)
        for target, mask in split_by_argument(atomic.address, atomic.mask)
    ]
    return merge_by_argument(atomic.address, parts)


def _apply_to_argument(
    machine: Machine, atomic: Atomic, target: Pointers, mask: Array | None, shape: tuple[int, ...]
) -> Array:
    active = machine.with_active(mask, len(shape))
    rows, flat = machine.memory.atomic(
        BlockAccess(
            atomic.location, target, atomic.kind, active, machine.numbers, atomic.words, is_store=atomic.is_store
        )
    )
    old_values = np.zeros(shape, carrier(atomic.kind.element))
    if flat is None:
        return old_values
    operands = [rows.take(operand, shape)[:, 0] for operand in atomic.operands]

    def replace(old: Array, lanes: Array) -> Array:
        return atomic.update(old, *[operand[lanes] for operand in operands])

    old_values.reshape(-1)[_lane_numbers(rows)] = _update_cells(flat, rows.starts, replace, atomic.kind.element)
    return old_values


def read_modify_write(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.atomic_rmw`: each lane sees what the lanes before it stored; returns the old values."""
    update = UPDATES.get(operation.keywords[0])
    if update is None:
        raise CannotExecute(f"atomic {operation.keywords[0]}")
    address, value, *mask = (frame[slot] for slot in operation.operands)
    return perform(
        machine,
        Atomic(
            operation.location,
            pointers(address),
            operation.operand_types[1],
            array(mask[0]) if mask else None,
            operation.keywords,
            (array(value),),
            update,
            is_store=operation.is_dropped and update is _exchange,
        ),
    )


def _swap(old: Array, expected: Array, new: Array) -> Array:
    # GPUs compare bits: a NaN equals itself, and the two zeros differ.
    return np.where(bits_of(old) == bits_of(expected), new, old)


def compare_and_swap(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.atomic_cas`: stores the new value if the old one is as expected; returns the old values."""
    address, expected, new = (frame[slot] for slot in operation.operands)
    words = ("cas", *operation.keywords)
    operands = (array(expected), array(new))
    kind = operation.operand_types[1]
    return perform(machine, Atomic(operation.location, pointers(address), kind, None, words, operands, _swap))


def _keep(old: Array) -> Array:
    return old


def load(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.atomic_load` (Triton 3.9)."""
    address, *mask = (frame[slot] for slot in operation.operands)
    mask_array = array(mask[0]) if mask else None
    kind = operation.result_types[0]
    words = ("load", *operation.keywords)
    return perform(machine, Atomic(operation.location, pointers(address), kind, mask_array, words, (), _keep))


def store(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """`tt.atomic_store` (Triton 3.9)."""
    address, value, *mask = (frame[slot] for slot in operation.operands)
    mask_array = array(mask[0]) if mask else None
    kind = operation.operand_types[1]
    words = ("exch", *operation.keywords)
    operands = (array(value),)
    perform(
        machine,
        Atomic(operation.location, pointers(address), kind, mask_array, words, operands, _exchange, is_store=True),
    )


def poll(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.atomic_poll` (Triton 3.9): polls until every lane has seen the value that it expects.

    With a time limit it polls twice, since the duration of a poll is not modelled.
    """
    address, expected, *limit = (frame[slot] for slot in operation.operands)
    kind, words = operation.operand_types[1], ("load", *(word for word in operation.keywords if word != "timeout"))
    expected_values = array(expected)
    has_matched = np.zeros((machine.width, *kind.shape), np.bool_)
    lap: LoopState = None
    for trip in range(MOST_POLLS):
        old_values = perform(
            machine, Atomic(operation.location, pointers(address), kind, ~has_matched, words, (), _keep)
        )
        has_matched = has_matched | (old_values == expected_values)
        is_waiting = machine.with_active(~has_matched, has_matched.ndim)
        assert is_waiting is not None
        if not is_waiting.any() or (limit and trip):
            machine.leave_loop()
            return has_matched
        lap = machine.back_edge(lap, (old_values,))
    raise CannotExecute(f"a poll that sees nothing new in {MOST_POLLS} trips")


MOST_POLLS = 100_000
"""Polls by one `tt.atomic_poll` after which the case ends as unsupported."""


_ONE_LANE = np.zeros(1, np.int64)


def _lane_numbers(rows: Rows) -> Array:
    return np.arange(rows.block[0]) if rows.selected is None else rows.selected


def _update_cells(flat: Array, cells: Array, update: Callable[[Array, Array], Array], element: str) -> Array:
    """Update `flat` at `cells`, one cell for each lane, and return the old values that the lanes saw.

    `update` computes new values from old ones and the lanes' indices.  Lanes that share a cell are applied in order:
    wave n updates, for every cell, the n-th lane that targets it.
    """
    if len(cells) == 1:  # the usual case for a counter or a lock, which programs poll often
        old = decode(flat[cells], element)
        flat[cells] = encode(rounded(update(old, _ONE_LANE), element), element)
        return old
    old_values = np.empty(len(cells), carrier(element))
    order = np.argsort(cells, kind="stable")
    ordered = cells[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.arange(len(cells)) - np.repeat(first, np.diff(np.r_[first, len(cells)]))
    for wave in range(int(rank.max()) + 1):
        lanes = order[rank == wave]
        old = decode(flat[cells[lanes]], element)
        old_values[lanes] = old
        flat[cells[lanes]] = encode(rounded(update(old, lanes), element), element)
    return old_values


HANDLERS: Mapping[str, Handler] = {
    "tt.atomic_rmw": read_modify_write,
    "tt.atomic_cas": compare_and_swap,
    "tt.atomic_load": load,
    "tt.atomic_store": store,
    POLL: poll,
}
