"""Which cells of memory changed when, and which programs wait for which of them to change.

A cell is four bytes here: what changes beside a cell that a program polls may wake it, and then it polls once more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from harness.virtual.memory.arguments import Buffer
from harness.virtual.memory.events import Place
from harness.virtual.numbers.elements import Array

CELL_BITS = 2

W = TypeVar("W")
"""Whoever waits."""


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """One read of a loop that may wait."""

    place: Place
    buffer: Buffer
    elements: Array
    """What is read, counted in the argument's own elements."""
    first_bytes: Array
    """Where each row begins in the storage."""
    width: int
    """Bytes of a row."""

    @property
    def cells(self) -> Array:
        """The cells that it touches."""
        return cells_of(self.first_bytes, self.width)


def cells_of(first_bytes: Array, width: int) -> Array:
    """The cells of rows of bytes."""
    first, last = first_bytes >> CELL_BITS, (first_bytes + (width - 1)) >> CELL_BITS
    most = int((last - first).max()) + 1 if len(first) else 1
    return first if most == 1 else np.minimum(first[:, None] + np.arange(most), last[:, None]).reshape(-1)


class Wakeups(Generic[W]):
    """Of one launch; time is counted in changes of memory."""

    def __init__(self) -> None:
        self.now = 0
        self._changed: dict[int, Array] = {}
        self._waiting: dict[int, dict[int, dict[W, None]]] = {}

    def changed(self, buffer: Buffer, first_bytes: Array, width: int) -> tuple[W, ...]:
        """Note that rows of bytes hold something else now; returns who waited for that."""
        self.now += 1
        cells = cells_of(first_bytes, width)
        if buffer.address not in self._changed:
            self._changed[buffer.address] = np.zeros((buffer.size_bytes >> CELL_BITS) + 1, np.int64)
        when = self._changed[buffer.address]
        when[cells] = self.now
        polled = self._waiting.get(buffer.address)
        if not polled:
            return ()
        if len(cells) == 1:
            return tuple(polled.get(int(cells[0]), ()))
        watched = np.fromiter(polled, np.int64, len(polled))
        hit = watched[when[watched] == self.now].tolist()
        return tuple(dict.fromkeys(waiter for cell in hit for waiter in polled[cell]))

    def is_quiet(self, reads: Iterable[Read], since: int) -> bool:
        """Whether nothing that was read has changed since then."""
        return all(
            read.buffer.address not in self._changed
            or not len(read.first_bytes)
            or int(self._changed[read.buffer.address][read.cells].max()) <= since
            for read in reads
        )

    def wait(self, waiter: W, reads: Sequence[Read]) -> None:
        """Let `changed` return this waiter for what it reads."""
        for read in reads:
            polled = self._waiting.setdefault(read.buffer.address, {})
            for cell in read.cells.tolist():
                polled.setdefault(cell, {})[waiter] = None

    def go_on(self, waiter: W, reads: Sequence[Read]) -> None:
        """The waiter waits no more."""
        for read in reads:
            polled = self._waiting[read.buffer.address]
            for cell in read.cells.tolist():
                waiters = polled.get(cell)
                if waiters is not None:
                    waiters.pop(waiter, None)
                    if not waiters:
                        del polled[cell]
