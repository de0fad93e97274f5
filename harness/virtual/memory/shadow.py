"""Shadow memory: for every cell of a buffer, which program of the launch stored it last and which two first read it.

A cell is a granule: the smallest element that the launch uses on the buffer, so that differently typed views of one
buffer meet.  Accesses come as rows: a start cell and a common width, which lets neighbours be handled by one copy.
Two readers are all it takes to know, whoever stores, of one other program that read the cell.
"""

from dataclasses import dataclass

import numpy as np

from harness.virtual.numbers.elements import Array

LOAD_BITS = 20
"""A reader is kept as its program's number with, in this many low bits, the number of its load."""


@dataclass(frozen=True, slots=True)
class Clash:
    """Cells that this access and another program's meet in; equally long arrays."""

    rows: Array
    """Index of the row of the access."""
    columns: Array
    """Cell within the row."""
    others: Array
    """The other program's number."""
    atomic: bool = False
    """Whether what the others did there is an atomic."""


@dataclass(frozen=True, slots=True)
class Reads:
    """Cells of a store that another program read before."""

    clash: Clash
    loads: Array
    """For each, the number of that program's load."""


def rows_of(cells: Array, width: int) -> Array:
    """All runs of `width` neighbouring cells, as a view that can be indexed by their first cell."""
    if width == 1:
        return cells.reshape(-1, 1)
    step = cells.itemsize
    return np.ndarray((max(0, len(cells) - width + 1), width), cells.dtype, cells, 0, (step, step))


class Shadow:
    """Who touched what in one launch.  Programs are numbered from 1; 0 is nobody."""

    def __init__(self, size_bytes: int, granule: int, *, track_readers: bool) -> None:
        self.granule = granule
        self.track_readers = track_readers
        self._writers = np.zeros(-(-size_bytes // granule), np.int32)
        readers = np.zeros((2, len(self._writers) if track_readers else 0), np.int64)
        self._first_readers, self._second_readers = readers[0], readers[1]

    def refine(self, granule: int) -> None:
        """Go over to smaller cells, because an access is narrower or lies askew."""
        factor = self.granule // granule
        self._writers = np.repeat(self._writers, factor)
        self._first_readers = np.repeat(self._first_readers, factor)
        self._second_readers = np.repeat(self._second_readers, factor)
        self.granule = granule

    def load(self, starts: Array, width: int, programs: Array, load: int) -> Clash | None:
        """Note that `programs`, one a row, read these rows by load number `load`; tells what others stored there."""
        numbers = programs[:, None]
        writers = rows_of(self._writers, width)[starts]
        clash = clash_where((writers != 0) & (writers != numbers), writers)
        readers = (numbers.astype(np.int64) << LOAD_BITS) | load
        first = rows_of(self._first_readers, width)
        seen = first[starts]
        if not seen.all():
            first[starts] = np.where(seen, seen, readers)
            seen = first[starts]
        beside = seen >> LOAD_BITS != numbers
        if beside.any():
            rows, columns = np.nonzero(beside)
            cells = starts[rows] + columns
            held = self._second_readers[cells]
            self._second_readers[cells] = np.where(held, held, readers[rows, 0])
        return clash

    def store(self, starts: Array, width: int, programs: Array) -> tuple[Clash | None, Clash | None, Reads | None]:
        """Note that `programs` stored these rows.

        Returns what clashed with stores of earlier steps, with stores of the same step, and with other programs' loads.
        """
        numbers = programs[:, None]
        rows = rows_of(self._writers, width)
        before = rows[starts]
        rows[starts] = np.broadcast_to(numbers, before.shape)
        after = rows[starts]
        earlier = clash_where((before != 0) & (before != numbers), before)
        together = clash_where(after != numbers, after)
        return earlier, together, self._reads(starts, width, numbers) if self.track_readers else None

    def _reads(self, starts: Array, width: int, numbers: Array) -> Reads | None:
        readers = rows_of(self._first_readers, width)[starts]
        own = readers >> LOAD_BITS == numbers
        if own.any():
            readers = np.where(own, rows_of(self._second_readers, width)[starts], readers)
        clash = clash_where(readers != 0, readers)
        if clash is None:
            return None
        loads = clash.others & ((1 << LOAD_BITS) - 1)
        return Reads(Clash(clash.rows, clash.columns, clash.others >> LOAD_BITS), loads)


def clash_where(where: Array, others: Array) -> Clash | None:
    """The cells of rows that are marked, with the others there; None where none is."""
    if not where.any():
        return None
    rows, columns = np.nonzero(where)
    return Clash(rows, columns, others[rows, columns])
