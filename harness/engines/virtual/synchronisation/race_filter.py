"""The memory of a lock-step launch with atomics; it finds cells with both atomic and plain accesses.

The filter ignores order: it reports two programs that access a cell, whichever comes first.  `race_recheck` then finds
out whether acquire and release order the accesses.
"""

from collections.abc import Iterable

import numpy as np

from harness.engines.virtual.memory.accesses import BlockAccess, Memory
from harness.engines.virtual.memory.arguments import Argument, Buffer
from harness.engines.virtual.memory.events import EventCollector
from harness.engines.virtual.memory.rows import Rows
from harness.engines.virtual.memory.shadow import Clash, Reads, Shadow, rows_of
from harness.engines.virtual.numbers.elements import Array

ATOMIC_LANES_PER_ACCESS = 100
"""Lanes of an atomic that cost the scheduler as much as one access, since it keeps a clock for each cell."""


class TouchingPrograms:
    """The first two programs that touched each cell; 0 means none."""

    def __init__(self, cells: int) -> None:
        self.first = np.zeros(cells, np.int32)
        self.second = np.zeros(cells, np.int32)

    def refine(self, factor: int) -> None:
        """Split each cell into `factor` cells."""
        self.first = np.repeat(self.first, factor)
        self.second = np.repeat(self.second, factor)

    def record(self, starts: Array, width: int, programs: Array) -> None:
        """Record that `programs`, one per row, touched these rows."""
        numbers = programs[:, None]
        rows = rows_of(self.first, width)
        first = rows[starts]
        if not first.all():
            rows[starts] = np.where(first, first, numbers)
            first = rows[starts]
        row_numbers, columns = np.nonzero(first != numbers)
        if len(row_numbers):
            cells = starts[row_numbers] + columns
            programs_before = self.second[cells]
            self.second[cells] = np.where(programs_before, programs_before, programs[row_numbers])


class FilterShadow(Shadow):
    """A shadow that also keeps the programs with plain accesses and those with atomics, for each cell."""

    def __init__(self, size_bytes: int, cell_bytes: int) -> None:
        super().__init__(size_bytes, cell_bytes, track_readers=True)
        cells = -(-size_bytes // cell_bytes)
        self._plain, self._atomic = TouchingPrograms(cells), TouchingPrograms(cells)

    def refine(self, cell_bytes: int) -> None:
        """Split the cells, for an access that is narrower than a cell or not aligned to cells."""
        for touched in (self._plain, self._atomic):
            touched.refine(self.cell_bytes // cell_bytes)
        super().refine(cell_bytes)

    def load(self, starts: Array, width: int, programs: Array, load: int) -> Clash | None:
        self._plain.record(starts, width, programs)
        return super().load(starts, width, programs, load)

    def store(self, starts: Array, width: int, programs: Array) -> tuple[Clash | None, Clash | None, Reads | None]:
        self._plain.record(starts, width, programs)
        return super().store(starts, width, programs)

    def atomic(self, starts: Array, width: int, programs: Array) -> None:
        """Record that `programs`, one per row, updated these rows."""
        self._atomic.record(starts, width, programs)

    @property
    def conflicting_programs(self) -> Array:
        """Pairs of a program with a plain access and another with an atomic, one pair per cell, counted from 0."""
        cells = np.flatnonzero((self._plain.first != 0) & (self._atomic.first != 0))
        plain, atomic = self._plain.first[cells], self._atomic.first[cells]
        other_plain, other_atomic = self._plain.second[cells], self._atomic.second[cells]
        differ = plain != atomic
        pairs = np.stack(
            (
                np.where(differ | (other_atomic != 0), plain, other_plain),
                np.where(differ | (other_atomic == 0), atomic, other_atomic),
            ),
            1,
        )
        return pairs[pairs.all(axis=1) & (pairs[:, 0] != pairs[:, 1])] - 1


class FilteredMemory(Memory):
    """Memory that filters some of its buffers for races, and counts accesses."""

    def __init__(self, arguments: list[Argument], events: EventCollector, filtered_buffers: Iterable[Buffer]) -> None:
        super().__init__(arguments, events)
        self.accesses = 0
        """The accesses that the programs would make one by one; an atomic with many lanes counts as several."""
        self._filter_shadows: list[FilterShadow] = []
        for buffer in filtered_buffers:
            buffer.track_readers = True
            buffer.shadow = FilterShadow(buffer.size_bytes, buffer.cell_bytes)
            self._filter_shadows.append(buffer.shadow)

    @property
    def conflicting_programs(self) -> Array:
        """The programs of each conflict, one pair per row, counted from 0."""
        return np.concatenate(
            [self.events.conflicting_programs, *(shadow.conflicting_programs for shadow in self._filter_shadows)]
        )

    def load(self, access: BlockAccess, other: Array) -> Array:
        self.accesses += len(access.numbers)
        return super().load(access, other)

    def store(self, access: BlockAccess, values: Array) -> None:
        self.accesses += len(access.numbers)
        super().store(access, values)

    def atomic(self, access: BlockAccess) -> tuple[Rows, Array | None]:
        rows, flat = super().atomic(access)
        self.accesses += len(access.numbers) + len(rows.starts) // ATOMIC_LANES_PER_ACCESS
        buffer = self.arguments[access.pointers.argument].buffer
        if flat is not None and buffer is not None and isinstance(buffer.shadow, FilterShadow):
            shadow, size = buffer.shadow, flat.itemsize
            if size < shadow.cell_bytes:
                shadow.refine(size)
            shadow.atomic(rows.starts * (size // shadow.cell_bytes), size // shadow.cell_bytes, rows.programs)
        return rows, flat
