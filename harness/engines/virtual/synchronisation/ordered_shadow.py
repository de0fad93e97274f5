"""The shadow memory of launches whose programs synchronise; it detects races by the happens-before order.

Each cell keeps epochs, as in FastTrack: a program and its clock.  There is one epoch for the last store, and two each
for atomics, loads and volatile loads.  Two accesses conflict only if neither happened before the other.  Of more than
two unordered accesses of a kind, the first and the last are kept.  Programs run one at a time here, so each access
belongs to one program.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from harness.engines.virtual.memory.shadow import OWN, Clash, Reads, Shadow, clash_at, part_of, rows_of
from harness.engines.virtual.numbers.elements import Array
from harness.engines.virtual.synchronisation.clocks import Clocks


class Epochs:
    """One program and its clock for each cell; program 0 means none."""

    def __init__(self, cells: int) -> None:
        self.programs = np.zeros(cells, np.int32)
        self.clocks = np.zeros(cells, np.int32)

    def refine(self, factor: int) -> None:
        """Split each cell into `factor` cells."""
        self.programs = np.repeat(self.programs, factor)
        self.clocks = np.repeat(self.clocks, factor)

    def record(self, starts: Array, width: int, number: int, clock: int) -> None:
        """Overwrite the epochs of rows."""
        rows_of(self.programs, width)[starts] = number
        rows_of(self.clocks, width)[starts] = clock


class Readers:
    """The first and the last of each cell's unordered readers, with the numbers of their loads."""

    def __init__(self, cells: int) -> None:
        self.epochs = (Epochs(cells), Epochs(cells))
        self._loads = (np.zeros(cells, np.int32), np.zeros(cells, np.int32))

    def refine(self, factor: int) -> None:
        """Split each cell into `factor` cells."""
        for epochs in self.epochs:
            epochs.refine(factor)
        first, second = self._loads
        self._loads = (np.repeat(first, factor), np.repeat(second, factor))

    def record(self, cells_of_each: tuple[Array, Array], load: int, own: Callable[[Array], Array]) -> None:
        """Record the load number, separately for cells of the first and of the second epoch, and if they are `own`."""
        for loads, selected in zip(self._loads, cells_of_each, strict=True):
            if len(selected):
                loads[selected] = load | np.where(own(selected), OWN, 0)

    def loads(self, position: int, cells: Array) -> Array:
        return self._loads[position][cells]


def not_own(cells: Array) -> Array:
    """Return an empty mask: a program that polls a cell waits for the bytes of others."""
    return np.zeros(len(cells), np.bool_)


class OrderedShadow(Shadow):
    """The epochs of all accesses to one buffer in one launch."""

    def __init__(self, size_bytes: int, cell_bytes: int, clocks: Clocks) -> None:
        super().__init__(0, cell_bytes, track_readers=True)
        self._clocks = clocks
        cells = -(-size_bytes // cell_bytes)
        self._stores = Epochs(cells)
        self._atomics = (Epochs(cells), Epochs(cells))
        self._readers = Readers(cells)
        self._pollers = Readers(cells)
        """Readers by volatile loads, which do not conflict with atomics."""

    def refine(self, cell_bytes: int) -> None:
        """Split the cells, for an access that is narrower than a cell or not aligned to cells."""
        factor = self.cell_bytes // cell_bytes
        for part in (self._stores, *self._atomics, self._readers, self._pollers, self.repeated):
            part.refine(factor)
        self.cell_bytes = cell_bytes

    def stored_cells(self) -> Array:
        """Return the cells that any program has stored, in ascending order."""
        return self._stores.programs.nonzero()[0]

    def load(self, starts: Array, width: int, programs: Array, load: int) -> Clash | None:
        """Record a read by load number `load`; returns unordered stores and atomics of other programs.

        Stores of the bytes that the program has stored itself do not count.
        """
        number = int(programs[0])
        clash = self._unordered(self._stores, starts, width, number)
        if clash is not None:
            cells = starts[clash.rows] + clash.columns
            clash = part_of(clash, ~self.repeated.own(cells, np.full_like(cells, number)))
        if clash is None:
            clash = self._unordered_updates(starts, width, number)
        self._readers.record(self._record(self._readers.epochs, starts, width, number), load, self._own(number))
        return clash

    def _own(self, number: int) -> Callable[[Array], Array]:
        """Return a function of cells: a mask of those that the program has stored, with the same bytes as others."""

        def own(cells: Array) -> Array:
            stored = self._stores.programs[cells] == number
            return stored | self.repeated.own(cells, np.full_like(cells, number))

        return own

    def poll(self, starts: Array, width: int, programs: Array, load: int) -> Clash | None:
        """Record a volatile load; returns unordered stores of other programs, since atomics do not conflict."""
        number = int(programs[0])
        clash = self._unordered(self._stores, starts, width, number)
        self._pollers.record(self._record(self._pollers.epochs, starts, width, number), load, not_own)
        return clash

    def _record(self, pair: tuple[Epochs, Epochs], starts: Array, width: int, number: int) -> tuple[Array, Array]:
        """Record an access in the first epoch if the held one happened before it, otherwise in the second epoch.

        Returns the cells recorded in the first and in the second epoch.
        """
        first, second = pair
        cells = starts if width == 1 else (starts[:, None] + np.arange(width)).reshape(-1)
        programs_before, clocks = first.programs[cells], first.clocks[cells]
        replaced = (
            (programs_before == 0)
            | (programs_before == number)
            | (clocks <= self._clocks.seen(number)[programs_before])
        )
        cells_of_each = cells[replaced], cells[~replaced]
        for epochs, selected in zip((first, second), cells_of_each, strict=True):
            epochs.programs[selected] = number
            epochs.clocks[selected] = self._clocks.own_clock(number)
        return cells_of_each

    def store(self, starts: Array, width: int, programs: Array) -> tuple[Clash | None, Clash | None, Reads | None]:
        """Record a store.

        Returns unordered stores or atomics of other programs, None, and unordered loads of other programs.  The second
        is None since programs run one at a time.
        """
        number = int(programs[0])
        clash = self._unordered(self._stores, starts, width, number)
        if clash is None:
            clash = self._unordered_updates(starts, width, number)
        self._stores.record(starts, width, number, self._clocks.own_clock(number))
        reads = self._unordered_reads(self._readers, starts, width, number)
        return clash, None, reads or self._unordered_reads(self._pollers, starts, width, number)

    def atomic(self, starts: Array, width: int, number: int) -> tuple[Clash | None, Reads | None]:
        """Record an atomic; returns unordered plain stores and plain loads of other programs."""
        clash = self._unordered(self._stores, starts, width, number)
        self._record(self._atomics, starts, width, number)
        return clash, self._unordered_reads(self._readers, starts, width, number)

    def _unordered_updates(self, starts: Array, width: int, number: int) -> Clash | None:
        first, second = self._atomics
        clash = self._unordered(first, starts, width, number) or self._unordered(second, starts, width, number)
        return clash and replace(clash, atomic=True)

    def _unordered(self, epochs: Epochs, starts: Array, width: int, number: int) -> Clash | None:
        if width == len(starts) == 1:  # fast path for counters and locks
            (cell,) = starts
            other = epochs.programs[cell]
            if other in (0, number) or epochs.clocks[cell] <= self._clocks.seen(number)[other]:
                return None
        other_programs = rows_of(epochs.programs, width)[starts]
        is_other = (other_programs != 0) & (other_programs != number)
        if not is_other.any():
            return None
        clocks = rows_of(epochs.clocks, width)[starts]
        return clash_at(is_other & (clocks > self._clocks.seen(number)[other_programs]), other_programs)

    def _unordered_reads(self, readers: Readers, starts: Array, width: int, number: int) -> Reads | None:
        for position, epochs in enumerate(readers.epochs):
            clash = self._unordered(epochs, starts, width, number)
            if clash is not None:
                loads = readers.loads(position, starts[clash.rows] + clash.columns)
                return Reads(clash, loads & (OWN - 1), loads & OWN != 0)
        return None
