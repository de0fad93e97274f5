"""Shadow memory: for every cell of a buffer, the last program that stored it and the first two that read it.

A cell has the size of the smallest element that the launch uses on the buffer.  So differently typed views of one
buffer meet in it.  Accesses come as rows, a start cell and a common width, so one copy handles all neighbours.  Two
readers are enough: for any storing program, one of them is another program.
"""

from dataclasses import dataclass

import numpy as np

from harness.engines.virtual.memory.huge_pages import zeros
from harness.engines.virtual.memory.repeated_stores import RepeatedStores
from harness.engines.virtual.numbers.elements import Array

LOAD_BITS = 20
"""A reader is stored as its program's number shifted left by this, plus the number of its load, plus `OWN`."""
OWN = 1 << 19
"""The bit of a reader that has stored the cell before, with the same bytes as all others."""


@dataclass(frozen=True, slots=True)
class Clash:
    """Cells in which an access meets an access of another program, as equally long arrays."""

    rows: Array
    """Index of the row of the access."""
    columns: Array
    """Cell within the row."""
    programs: Array
    """The other program's number."""
    atomic: bool = False
    """The other program's access is an atomic."""


@dataclass(frozen=True, slots=True)
class Reads:
    """Cells of a store that another program read before."""

    clash: Clash
    loads: Array
    """For each cell, the number of the other program's load."""
    own: Array
    """For each cell, true if the other program read what it had stored itself."""

    def part(self, mask: Array) -> "Reads | None":
        """Return the masked cells; None for an empty mask."""
        clash = part_of(self.clash, mask)
        return clash and Reads(clash, self.loads[mask], self.own[mask])


def rows_of(cells: Array, width: int) -> Array:
    """Return all runs of `width` neighbouring cells as a view, indexed by the first cell of a run."""
    if width == 1:
        return cells.reshape(-1, 1)
    step = cells.itemsize
    return np.ndarray((max(0, len(cells) - width + 1), width), cells.dtype, cells, 0, (step, step))


class Shadow:
    """The programs that touched each cell in one launch.  Programs are numbered from 1; 0 means no program."""

    def __init__(self, size_bytes: int, cell_bytes: int, *, track_readers: bool) -> None:
        self.cell_bytes = cell_bytes
        self.track_readers = track_readers
        self._writers = zeros(-(-size_bytes // cell_bytes), np.int32)
        readers = len(self._writers) if track_readers else 0
        self._first_readers, self._second_readers = zeros(readers, np.int64), zeros(readers, np.int64)
        self.repeated = RepeatedStores()

    def refine(self, cell_bytes: int) -> None:
        """Split the cells, for an access that is narrower than a cell or not aligned to cells."""
        factor = self.cell_bytes // cell_bytes
        self.repeated.refine(factor)
        self._writers = np.repeat(self._writers, factor)
        self._first_readers = np.repeat(self._first_readers, factor)
        self._second_readers = np.repeat(self._second_readers, factor)
        self.cell_bytes = cell_bytes

    def stored_cells(self) -> Array:
        """Return the cells that any program has stored, in ascending order."""
        return self._writers.nonzero()[0]

    def load(self, starts: Array, width: int, programs: Array, load: int) -> Clash | None:
        """Record that `programs`, one per row, read these rows by load number `load`.

        Returns the cells that other programs stored before, unless each program reads the bytes that it stored itself.
        """
        numbers = programs[:, None]
        writers = rows_of(self._writers, width)[starts]
        clash, own = clash_at((writers != 0) & (writers != numbers), writers), writers == numbers
        if clash is not None:
            stored = self.repeated.own(starts[clash.rows] + clash.columns, programs[clash.rows])
            own[clash.rows[stored], clash.columns[stored]] = True
            clash = part_of(clash, ~stored)
        readers = (numbers.astype(np.int64) << LOAD_BITS) | load | np.where(own, OWN, 0)
        first = rows_of(self._first_readers, width)
        seen = first[starts]
        if not seen.all():
            first[starts] = np.where(seen, seen, readers)
            # Read back: several rows may contain the same cell, and the last of them wins.
            seen = first[starts]
        is_second = seen >> LOAD_BITS != numbers
        if is_second.any():
            rows, columns = np.nonzero(is_second)
            cells = starts[rows] + columns
            held = self._second_readers[cells]
            self._second_readers[cells] = np.where(held, held, readers[rows, columns])
        return clash

    def store(self, starts: Array, width: int, programs: Array) -> tuple[Clash | None, Clash | None, Reads | None]:
        """Record that `programs`, one per row, stored these rows.

        Returns the clashes with stores of earlier accesses, with stores of this same access, and with other programs'
        loads.
        """
        numbers = programs[:, None]
        rows = rows_of(self._writers, width)
        before = rows[starts]
        rows[starts] = np.broadcast_to(numbers, before.shape)
        # Read back: where two programs stored one cell, one of them does not find its own number.
        after = rows[starts]
        earlier = clash_at((before != 0) & (before != numbers), before)
        together = clash_at(after != numbers, after)
        return earlier, together, self._reads(starts, width, numbers) if self.track_readers else None

    def _reads(self, starts: Array, width: int, numbers: Array) -> Reads | None:
        readers = rows_of(self._first_readers, width)[starts]
        own = readers >> LOAD_BITS == numbers
        if own.any():
            readers = np.where(own, rows_of(self._second_readers, width)[starts], readers)
        clash = clash_at(readers != 0, readers)
        if clash is None:
            return None
        loads, own = clash.programs & (OWN - 1), clash.programs & OWN != 0
        return Reads(Clash(clash.rows, clash.columns, clash.programs >> LOAD_BITS), loads, own)


def part_of(clash: Clash, mask: Array) -> Clash | None:
    """Return the masked cells of a clash; None for an empty mask."""
    if not mask.any():
        return None
    return Clash(clash.rows[mask], clash.columns[mask], clash.programs[mask], clash.atomic)


def clash_at(mask: Array, programs: Array) -> Clash | None:
    """Return the masked cells of rows, each with its program in `programs`; None for an empty mask."""
    if not mask.any():
        return None
    rows, columns = np.nonzero(mask)
    return Clash(rows, columns, programs[rows, columns])
