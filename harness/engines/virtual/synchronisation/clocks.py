"""Vector clocks of the programs of one launch, which acquire and release advance.

A program's own clock counts its releases.  A program sees another program's clock by acquiring, directly or through
others, a cell to which that program released.  All accesses up to the seen clock happened before its own next access.
An atomic that modifies a cell keeps earlier releases to it alive (a release sequence of the PTX memory model).  A plain
store to the cell ends them.  Atomics of scope `cta` order nothing between programs.
"""

import numpy as np

from harness.engines.virtual.numbers.elements import Array
from harness.errors import CannotExecute

ACQUIRING = frozenset({"acquire", "acq_rel"})
RELEASING = frozenset({"release", "acq_rel"})
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

    def own_clock(self, number: int) -> int:
        return int(self._own[number])

    def seen(self, number: int) -> Array:
        """By program number, the latest clock of each program that this program has seen."""
        return self._seen.get(number, self._nothing)

    def acquire(self, number: int, cells: list[Cell]) -> None:
        """Merge the clocks that were released to these cells into the program's own view."""
        # Cells of one release share one array: merge each array once.
        released = {id(clock): clock for cell in cells if (clock := self._released.get(cell)) is not None}
        for clock in released.values():
            seen = self._seen.get(number)
            if seen is None:
                self._check_size()
                self._seen[number] = clock.copy()
            else:
                np.maximum(seen, clock, out=seen)

    def release(self, number: int, cells: list[Cell]) -> None:
        """Add the program's clock and all that it has seen to the releases that these cells hold."""
        self._addresses.update(address for address, _ in cells)
        clock = self.seen(number).copy()
        clock[number] = self._own[number]
        joined: dict[int, Array] = {}
        for cell in cells:
            old_clock = self._released.get(cell)
            if old_clock is None:
                self._released[cell] = clock
                continue
            if id(old_clock) not in joined:
                joined[id(old_clock)] = np.maximum(old_clock, clock)
            self._released[cell] = joined[id(old_clock)]
        self._check_size()
        self._own[number] += 1

    def forget(self, address: int, first_bytes: Array, width: int) -> None:
        """Drop the releases to cells that plain stores of `width` bytes overwrote."""
        if address not in self._addresses:
            return
        cells = [cell for cell in self._released if cell[0] == address]
        bytes_released = np.array([byte for _, byte in cells], np.int64)
        store_starts = np.sort(first_bytes)
        store_index = np.searchsorted(store_starts, bytes_released, side="right") - 1
        for index in np.flatnonzero((store_index >= 0) & (bytes_released - store_starts[store_index] < width)):
            del self._released[cells[index]]

    def end_program(self, number: int) -> None:
        """Free the clocks that a finished program had seen."""
        self._seen.pop(number, None)

    def _check_size(self) -> None:
        clocks = len(self._seen) + len(self._released)
        if clocks * self._nothing.nbytes > LARGEST_BYTES:
            raise CannotExecute(f"synchronisation of {len(self._own) - 1} programs over {len(self._released)} cells")
