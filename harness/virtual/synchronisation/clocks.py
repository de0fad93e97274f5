"""What each program of a launch knows of the others: vector clocks, moved on by acquire and release.

A program's clock counts the releases it made.  What it did at a clock happened before whatever another program does
that has seen this clock: it acquired, directly or through others, a cell to which that release was made.  An atomic
that modifies a cell hands on what was released to it before (a release sequence of the PTX memory model); a plain store
ends that.  Atomics of scope `cta` order nothing between programs.
"""

import numpy as np

from harness.errors import CannotExecute
from harness.virtual.numbers.elements import Array

ACQUIRING = frozenset({"acquire", "acq_rel"})
RELEASING = frozenset({"release", "acq_rel"})
WITHIN_PROGRAM = "cta"
LARGEST_BYTES = 1 << 30

Cell = tuple[int, int]
"""The address of a storage, and a byte in it."""


class Clocks:
    """The vector clocks of one launch's programs, numbered from 1."""

    def __init__(self, programs: int) -> None:
        self._own = np.ones(programs + 1, np.int32)
        self._nothing = np.zeros(programs + 1, np.int32)
        self._seen: dict[int, Array] = {}
        self._released: dict[Cell, Array] = {}
        self._addresses: set[int] = set()

    def own(self, number: int) -> int:
        """The program's own clock."""
        return int(self._own[number])

    def seen(self, number: int) -> Array:
        """Up to which of their clocks this program knows what the others did, by their numbers."""
        return self._seen.get(number, self._nothing)

    def acquire(self, number: int, cells: list[Cell]) -> None:
        """Learn what was released to these cells."""
        released = {id(clock): clock for cell in cells if (clock := self._released.get(cell)) is not None}
        for clock in released.values():
            seen = self._seen.get(number)
            if seen is None:
                self._check_room()
                self._seen[number] = clock.copy()
            else:
                np.maximum(seen, clock, out=seen)

    def release(self, number: int, cells: list[Cell]) -> None:
        """Hand on to these cells all that this program did and knows, beside what they hold."""
        self._addresses.update(address for address, _ in cells)
        clock = self.seen(number).copy()
        clock[number] = self._own[number]
        joined: dict[int, Array] = {}
        for cell in cells:
            before = self._released.get(cell)
            if before is None:
                self._released[cell] = clock
                continue
            if id(before) not in joined:
                joined[id(before)] = np.maximum(before, clock)
            self._released[cell] = joined[id(before)]
        self._check_room()
        self._own[number] += 1

    def forget(self, address: int, first_bytes: Array, width: int) -> None:
        """Plain stores of `width` bytes went over memory: what was released there is not handed on any more."""
        if address not in self._addresses:
            return
        cells = [cell for cell in self._released if cell[0] == address]
        at = np.array([byte for _, byte in cells], np.int64)
        first = np.sort(first_bytes)
        before = np.searchsorted(first, at, side="right") - 1
        for index in np.flatnonzero((before >= 0) & (at - first[before] < width)):
            del self._released[cells[index]]

    def ended(self, number: int) -> None:
        """Let go of what a program knew that does nothing any more."""
        self._seen.pop(number, None)

    def _check_room(self) -> None:
        clocks = len(self._seen) + len(self._released)
        if clocks * self._nothing.nbytes > LARGEST_BYTES:
            raise CannotExecute(f"synchronisation of {len(self._own) - 1} programs over {len(self._released)} cells")
