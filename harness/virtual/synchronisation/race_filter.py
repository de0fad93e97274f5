"""The memory of a launch in lock-step whose kernel has atomics: it tells where they meet plain accesses.

Every step of all programs stands beside every other here, so whatever two programs do to one cell is seen, in whatever
order it would come; whether something orders it is for others to say.
"""

from collections.abc import Iterable

import numpy as np

from harness.virtual.memory.accesses import Memory, Step
from harness.virtual.memory.arguments import Argument, Buffer
from harness.virtual.memory.events import EventCollector
from harness.virtual.memory.rows import Rows
from harness.virtual.memory.shadow import Clash, Reads, Shadow, rows_of
from harness.virtual.numbers.elements import Array

LANES = 100
"""Of an atomic, that take programs in turns as long as an access: each cell has a clock."""


class Touched:
    """For each cell the first program that touched it, and the first other one; 0 is nobody."""

    def __init__(self, cells: int) -> None:
        self.first = np.zeros(cells, np.int32)
        self.second = np.zeros(cells, np.int32)

    def refine(self, factor: int) -> None:
        """Go over to smaller cells."""
        self.first = np.repeat(self.first, factor)
        self.second = np.repeat(self.second, factor)

    def note(self, starts: Array, width: int, programs: Array) -> None:
        """These programs, one a row, touch these rows."""
        numbers = programs[:, None]
        rows = rows_of(self.first, width)
        seen = rows[starts]
        if not seen.all():
            rows[starts] = np.where(seen, seen, numbers)
            seen = rows[starts]
        at, columns = np.nonzero(seen != numbers)
        if len(at):
            cells = starts[at] + columns
            held = self.second[cells]
            self.second[cells] = np.where(held, held, programs[at])


class ScreenedShadow(Shadow):
    """Knows beside what every shadow knows who touched a cell plainly, and who by an atomic."""

    def __init__(self, size_bytes: int, granule: int) -> None:
        super().__init__(size_bytes, granule, track_readers=True)
        cells = -(-size_bytes // granule)
        self._plain, self._atomic = Touched(cells), Touched(cells)

    def refine(self, granule: int) -> None:
        """Go over to smaller cells, because an access is narrower or lies askew."""
        for touched in (self._plain, self._atomic):
            touched.refine(self.granule // granule)
        super().refine(granule)

    def load(self, starts: Array, width: int, programs: Array, load: int) -> Clash | None:
        """As every shadow does."""
        self._plain.note(starts, width, programs)
        return super().load(starts, width, programs, load)

    def store(self, starts: Array, width: int, programs: Array) -> tuple[Clash | None, Clash | None, Reads | None]:
        """As every shadow does."""
        self._plain.note(starts, width, programs)
        return super().store(starts, width, programs)

    def atomic(self, starts: Array, width: int, programs: Array) -> None:
        """Note who updates these rows."""
        self._atomic.note(starts, width, programs)

    @property
    def met(self) -> Array:
        """Two programs that touched a cell, the first plainly and the other by an atomic: one pair for each cell."""
        cells = np.flatnonzero((self._plain.first != 0) & (self._atomic.first != 0))
        plain, atomic = self._plain.first[cells], self._atomic.first[cells]
        other_plain, other_atomic = self._plain.second[cells], self._atomic.second[cells]
        apart = plain != atomic
        pairs = np.stack(
            (
                np.where(apart | (other_atomic != 0), plain, other_plain),
                np.where(apart | (other_atomic == 0), atomic, other_atomic),
            ),
            1,
        )
        return pairs[pairs.all(axis=1) & (pairs[:, 0] != pairs[:, 1])] - 1


class FilteredMemory(Memory):
    """Screens some of its buffers, and counts accesses."""

    def __init__(self, arguments: list[Argument], events: EventCollector, screened: Iterable[Buffer]) -> None:
        super().__init__(arguments, events)
        self.accesses = 0
        """As many as programs one after the other would make; an atomic of many lanes counts for several."""
        self._screened: list[ScreenedShadow] = []
        for buffer in screened:
            buffer.track_readers = True
            buffer.shadow = ScreenedShadow(buffer.size_bytes, buffer.granule)
            self._screened.append(buffer.shadow)

    @property
    def met(self) -> Array:
        """The programs of each pair that met in a cell, one pair a row, counted from 0."""
        return np.concatenate([self.events.met, *(shadow.met for shadow in self._screened)])

    def load(self, step: Step, other: Array) -> Array:
        """As every memory does."""
        self.accesses += len(step.numbers)
        return super().load(step, other)

    def store(self, step: Step, values: Array) -> None:
        """As every memory does."""
        self.accesses += len(step.numbers)
        super().store(step, values)

    def atomic(self, step: Step) -> tuple[Rows, Array | None]:
        """As every memory does; who updates what is noted."""
        rows, flat = super().atomic(step)
        self.accesses += len(step.numbers) + len(rows.starts) // LANES
        buffer = self.arguments[step.pointers.argument].buffer
        if flat is not None and buffer is not None and isinstance(buffer.shadow, ScreenedShadow):
            shadow, size = buffer.shadow, flat.itemsize
            if size < shadow.granule:
                shadow.refine(size)
            shadow.atomic(rows.starts * (size // shadow.granule), size // shadow.granule, rows.programs)
        return rows, flat
