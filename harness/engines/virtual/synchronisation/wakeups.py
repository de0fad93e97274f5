"""The times of changes of memory cells, and the programs that wait for cells to change.

A cell is four bytes here.  A change next to a polled value may therefore wake a program early; it then polls once more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from harness.engines.virtual.memory.arguments import Buffer
from harness.engines.virtual.memory.events import Place
from harness.engines.virtual.numbers.elements import Array

CELL_BITS = 2

Waiter = TypeVar("Waiter")
"""The type of what waits: a program."""


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """One read in a loop that may wait."""

    place: Place
    buffer: Buffer
    elements: Array
    """Element numbers, in the argument's own elements."""
    first_bytes: Array
    """The first byte of each row in the storage."""
    width: int
    """The length of a row in bytes."""

    @property
    def cells(self) -> Array:
        return cells_of(self.first_bytes, self.width)


def cells_of(first_bytes: Array, width: int) -> Array:
    """The cells of rows of bytes; a cell may occur more than once."""
    first, last = first_bytes >> CELL_BITS, (first_bytes + (width - 1)) >> CELL_BITS
    cells_per_row = int((last - first).max()) + 1 if len(first) else 1
    return (
        first
        if cells_per_row == 1
        else np.minimum(first[:, None] + np.arange(cells_per_row), last[:, None]).reshape(-1)
    )


class Wakeups(Generic[Waiter]):
    """The waiting programs of one launch.  Time is counted in changes of memory."""

    def __init__(self) -> None:
        self.now = 0
        self._changed: dict[int, Array] = {}
        self._waiting: dict[int, dict[int, dict[Waiter, None]]] = {}

    def record_change(self, buffer: Buffer, first_bytes: Array, width: int) -> tuple[Waiter, ...]:
        """Record that the contents of rows of bytes changed; returns the waiters for them."""
        self.now += 1
        cells = cells_of(first_bytes, width)
        if buffer.address not in self._changed:
            self._changed[buffer.address] = np.zeros((buffer.size_bytes >> CELL_BITS) + 1, np.int64)
        changed_at = self._changed[buffer.address]
        changed_at[cells] = self.now
        waiting = self._waiting.get(buffer.address)
        if not waiting:
            return ()
        if len(cells) == 1:
            return tuple(waiting.get(int(cells[0]), ()))
        waited_cells = np.fromiter(waiting, np.int64, len(waiting))
        changed_cells = waited_cells[changed_at[waited_cells] == self.now].tolist()
        return tuple(dict.fromkeys(waiter for cell in changed_cells for waiter in waiting[cell]))

    def is_unchanged(self, reads: Iterable[Read], since: int) -> bool:
        """Return True if nothing that was read has changed since then."""
        return all(
            read.buffer.address not in self._changed
            or not len(read.first_bytes)
            or int(self._changed[read.buffer.address][read.cells].max()) <= since
            for read in reads
        )

    def add(self, waiter: Waiter, reads: Sequence[Read]) -> None:
        """Add a waiter for changes of what it reads."""
        for read in reads:
            waiting = self._waiting.setdefault(read.buffer.address, {})
            for cell in read.cells.tolist():
                waiting.setdefault(cell, {})[waiter] = None

    def remove(self, waiter: Waiter, reads: Sequence[Read]) -> None:
        for read in reads:
            waiting = self._waiting[read.buffer.address]
            for cell in read.cells.tolist():
                waiters = waiting.get(cell)
                if waiters is not None:
                    waiters.pop(waiter, None)
                    if not waiters:
                        del waiting[cell]
