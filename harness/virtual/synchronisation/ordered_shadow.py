"""The shadow of launches whose programs synchronise: accesses are judged by what happened before what.

Each cell keeps who stored it last, two who updated it atomically, two who read it and two who polled it, each with that
program's clock (FastTrack's epochs).  Two accesses meet only where neither happened before the other.  Of more than two
of a kind that nothing orders, the first and the last are known.  One program makes an access: programs run one at a
time here.
"""

from dataclasses import replace

import numpy as np

from harness.virtual.memory.shadow import Clash, Reads, Shadow, clash_where, rows_of
from harness.virtual.numbers.elements import Array
from harness.virtual.synchronisation.clocks import Clocks


class Epochs:
    """For each cell a program and its clock; 0 is nobody."""

    def __init__(self, cells: int) -> None:
        self.programs = np.zeros(cells, np.int32)
        self.clocks = np.zeros(cells, np.int32)

    def refine(self, factor: int) -> None:
        """Go over to smaller cells."""
        self.programs = np.repeat(self.programs, factor)
        self.clocks = np.repeat(self.clocks, factor)

    def note(self, starts: Array, width: int, number: int, clock: int) -> None:
        """Overwrite rows."""
        rows_of(self.programs, width)[starts] = number
        rows_of(self.clocks, width)[starts] = clock


class Readers:
    """For each cell the first and the last of those who read it and whom nothing orders, and by which load."""

    def __init__(self, cells: int) -> None:
        self.epochs = (Epochs(cells), Epochs(cells))
        self._loads = (np.zeros(cells, np.int32), np.zeros(cells, np.int32))

    def refine(self, factor: int) -> None:
        """Go over to smaller cells."""
        for epochs in self.epochs:
            epochs.refine(factor)
        first, second = self._loads
        self._loads = (np.repeat(first, factor), np.repeat(second, factor))

    def note(self, parts: tuple[Array, Array], load: int) -> None:
        """Remember the load for the cells of either place."""
        for loads, where in zip(self._loads, parts, strict=True):
            loads[where] = load

    def loads(self, place: int, cells: Array) -> Array:
        """The numbers of the loads."""
        return self._loads[place][cells]


class OrderedShadow(Shadow):
    """Who touched what, and when, in one launch."""

    def __init__(self, size_bytes: int, granule: int, clocks: Clocks) -> None:
        super().__init__(0, granule, track_readers=True)
        self._order = clocks
        cells = -(-size_bytes // granule)
        self._stores = Epochs(cells)
        self._atomics = (Epochs(cells), Epochs(cells))
        self._readers = Readers(cells)
        self._pollers = Readers(cells)
        """By volatile loads, which atomics may meet."""

    def refine(self, granule: int) -> None:
        """Go over to smaller cells, because an access is narrower or lies askew."""
        factor = self.granule // granule
        for kept in (self._stores, *self._atomics, self._readers, self._pollers):
            kept.refine(factor)
        self.granule = granule

    def load(self, starts: Array, width: int, programs: Array, load: int) -> Clash | None:
        """Note a read by load number `load`; tells what others stored or updated there with nothing to order it."""
        number = int(programs[0])
        clash = self._unordered(self._stores, starts, width, number)
        if clash is None:
            clash = self._unordered_updates(starts, width, number)
        self._readers.note(self._note(self._readers.epochs, starts, width, number), load)
        return clash

    def poll(self, starts: Array, width: int, programs: Array, load: int) -> Clash | None:
        """The same for a volatile load, which atomics may meet."""
        number = int(programs[0])
        clash = self._unordered(self._stores, starts, width, number)
        self._pollers.note(self._note(self._pollers.epochs, starts, width, number), load)
        return clash

    def _note(self, pair: tuple[Epochs, Epochs], starts: Array, width: int, number: int) -> tuple[Array, Array]:
        """Keep an access beside one that nothing orders before it, else in its place; the cells of either kind."""
        first, second = pair
        cells = starts if width == 1 else (starts[:, None] + np.arange(width)).reshape(-1)
        held, since = first.programs[cells], first.clocks[cells]
        replaced = (held == 0) | (held == number) | (since <= self._order.seen(number)[held])
        parts = cells[replaced], cells[~replaced]
        for epochs, where in zip((first, second), parts, strict=True):
            epochs.programs[where] = number
            epochs.clocks[where] = self._order.own(number)
        return parts

    def store(self, starts: Array, width: int, programs: Array) -> tuple[Clash | None, Clash | None, Reads | None]:
        """Note a store.  Returns what clashed with others' stores or atomics, nothing, and with others' loads."""
        number = int(programs[0])
        clash = self._unordered(self._stores, starts, width, number)
        if clash is None:
            clash = self._unordered_updates(starts, width, number)
        self._stores.note(starts, width, number, self._order.own(number))
        reads = self._unordered_reads(self._readers, starts, width, number)
        return clash, None, reads or self._unordered_reads(self._pollers, starts, width, number)

    def atomic(self, starts: Array, width: int, number: int) -> tuple[Clash | None, Reads | None]:
        """Note an atomic.  Returns what clashed with others' plain stores, and with their plain loads."""
        clash = self._unordered(self._stores, starts, width, number)
        self._note(self._atomics, starts, width, number)
        return clash, self._unordered_reads(self._readers, starts, width, number)

    def _unordered_updates(self, starts: Array, width: int, number: int) -> Clash | None:
        first, second = self._atomics
        found = self._unordered(first, starts, width, number) or self._unordered(second, starts, width, number)
        return found and replace(found, atomic=True)

    def _unordered(self, epochs: Epochs, starts: Array, width: int, number: int) -> Clash | None:
        if width == len(starts) == 1:  # a counter or a lock
            (cell,) = starts
            other = epochs.programs[cell]
            if other in (0, number) or epochs.clocks[cell] <= self._order.seen(number)[other]:
                return None
        others = rows_of(epochs.programs, width)[starts]
        apart = (others != 0) & (others != number)
        if not apart.any():
            return None
        since = rows_of(epochs.clocks, width)[starts]
        return clash_where(apart & (since > self._order.seen(number)[others]), others)

    def _unordered_reads(self, readers: Readers, starts: Array, width: int, number: int) -> Reads | None:
        for place, epochs in enumerate(readers.epochs):
            clash = self._unordered(epochs, starts, width, number)
            if clash is not None:
                return Reads(clash, readers.loads(place, starts[clash.rows] + clash.columns))
        return None
