"""Shadow memory: for every cell of a buffer, which program of the launch stored it and which read it.

A cell is a granule: the smallest element that the launch uses on the buffer, so that differently typed views of one
buffer meet.  Accesses come as rows: a start cell and a common width, which lets neighbours be handled by one copy.
"""

from dataclasses import dataclass

import numpy as np

from harness.virtual.elements import Array

MANY = -1
"""In the reader shadow: more than one program read the cell.  Elsewhere 0 is nobody, and p + 1 is program p."""


@dataclass(frozen=True, slots=True)
class Clash:
    """Cells that this access and another program's meet in; equally long arrays."""

    rows: Array
    """Index of the row of the access."""
    columns: Array
    """Cell within the row."""
    others: Array
    """The other program's number, or `MANY`."""


def rows_of(cells: Array, width: int) -> Array:
    """All runs of `width` neighbouring cells, as a view that can be indexed by their first cell."""
    if width == 1:
        return cells.reshape(-1, 1)
    step = cells.itemsize
    return np.ndarray((max(0, len(cells) - width + 1), width), cells.dtype, cells, 0, (step, step))


class Shadow:
    """Who touched what in one launch."""

    def __init__(self, size_bytes: int, granule: int, *, track_readers: bool) -> None:
        self.granule = granule
        self._writers = np.zeros(-(-size_bytes // granule), np.int32)
        self._readers = np.zeros(len(self._writers), np.int32) if track_readers else None

    def refine(self, granule: int) -> None:
        """Go over to smaller cells, because an access is narrower or lies askew."""
        factor = self.granule // granule
        self._writers = np.repeat(self._writers, factor)
        if self._readers is not None:
            self._readers = np.repeat(self._readers, factor)
        self.granule = granule

    def load(self, starts: Array, width: int, programs: Array) -> Clash | None:
        """Note that `programs` (numbers, one a row) read these rows; what other programs stored there, if anything."""
        if self._readers is None:
            return None
        numbers = programs[:, None]
        writers = rows_of(self._writers, width)[starts]
        clash = (writers != 0) & (writers != numbers)
        readers = rows_of(self._readers, width)
        seen = readers[starts]
        wanted = np.where((seen == 0) | (seen == numbers), numbers, MANY).astype(np.int32)
        readers[starts] = wanted
        lost = readers[starts] != wanted
        if lost.any():
            row, column = np.nonzero(lost)
            self._readers[starts[row] + column] = MANY
        return _clash(clash, writers)

    def store(self, starts: Array, width: int, programs: Array) -> tuple[Clash | None, Clash | None, Clash | None]:
        """Note that `programs` stored these rows.

        Returns what clashed with stores of earlier steps, with stores of the same step, and with other programs' loads.
        """
        numbers = programs[:, None]
        rows = rows_of(self._writers, width)
        before = rows[starts]
        rows[starts] = np.broadcast_to(numbers, before.shape)
        after = rows[starts]
        earlier = _clash((before != 0) & (before != numbers), before)
        together = _clash(after != numbers, after)
        reads = None
        if self._readers is not None:
            readers = rows_of(self._readers, width)[starts]
            reads = _clash((readers != 0) & (readers != numbers), readers)
        return earlier, together, reads


def _clash(where: Array, others: Array) -> Clash | None:
    if not where.any():
        return None
    rows, columns = np.nonzero(where)
    return Clash(rows, columns, others[rows, columns])
