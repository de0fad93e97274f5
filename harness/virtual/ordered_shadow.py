"""The shadow of launches whose programs synchronise: accesses are judged by what happened before what.

Each cell keeps who stored it last, two who updated it atomically and two who read it, each with that program's clock
(FastTrack's epochs).  Two accesses meet only where neither happened before the other.  Of more than two readers or
updaters that nothing orders, the first and the last are known.  One program makes an access: programs run one at a
time here.
"""

import numpy as np

from harness.virtual.clocks import Clocks
from harness.virtual.elements import Array
from harness.virtual.shadow import Clash, Reads, Shadow, clash_where, rows_of


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


class OrderedShadow(Shadow):
    """Who touched what, and when, in one launch."""

    def __init__(self, size_bytes: int, granule: int, clocks: Clocks) -> None:
        super().__init__(0, granule, track_readers=True)
        self._order = clocks
        cells = -(-size_bytes // granule)
        self._stores = Epochs(cells)
        self._atomics = (Epochs(cells), Epochs(cells))
        self._readers = (Epochs(cells), Epochs(cells))
        self._numbers = (np.zeros(cells, np.int32), np.zeros(cells, np.int32))
        """The numbers of the readers' loads, below zero (as ~number) where they are volatile."""

    def refine(self, granule: int) -> None:
        """Go over to smaller cells, because an access is narrower or lies askew."""
        factor = self.granule // granule
        for epochs in (self._stores, *self._atomics, *self._readers):
            epochs.refine(factor)
        first, second = self._numbers
        self._numbers = (np.repeat(first, factor), np.repeat(second, factor))
        self.granule = granule

    def load(self, starts: Array, width: int, programs: Array, load: int) -> Clash | None:
        """Note a read by load number `load`; tells what others stored or updated there with nothing to order it."""
        return self._load(starts, width, int(programs[0]), load, volatile=False)

    def poll(self, starts: Array, width: int, programs: Array, load: int) -> Clash | None:
        """The same for a volatile load, which atomics may meet."""
        return self._load(starts, width, int(programs[0]), load, volatile=True)

    def _load(self, starts: Array, width: int, number: int, load: int, *, volatile: bool) -> Clash | None:
        clash = self._unordered(self._stores, starts, width, number)
        if clash is None and not volatile:
            clash = self._unordered_updates(starts, width, number)
        told = ~load if volatile else load
        for numbers, where in zip(self._numbers, self._note(self._readers, starts, width, number), strict=True):
            numbers[where] = told
        return clash

    def _note(self, pair: tuple[Epochs, Epochs], starts: Array, width: int, number: int) -> tuple[Array, Array]:
        """Keep an access beside one that nothing orders before it, else in its place; the cells of either kind."""
        first, second = pair
        cells = (starts[:, None] + np.arange(width)).reshape(-1)
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
        return clash, None, self._unordered_reads(starts, width, number, volatile=True)

    def atomic(self, starts: Array, width: int, number: int) -> tuple[Clash | None, Reads | None]:
        """Note an atomic.  Returns what clashed with others' plain stores, and with their plain loads."""
        clash = self._unordered(self._stores, starts, width, number)
        self._note(self._atomics, starts, width, number)
        return clash, self._unordered_reads(starts, width, number, volatile=False)

    def _unordered_updates(self, starts: Array, width: int, number: int) -> Clash | None:
        first, second = self._atomics
        return self._unordered(first, starts, width, number) or self._unordered(second, starts, width, number)

    def _unordered(self, epochs: Epochs, starts: Array, width: int, number: int) -> Clash | None:
        others = rows_of(epochs.programs, width)[starts]
        apart = (others != 0) & (others != number)
        if not apart.any():
            return None
        since = rows_of(epochs.clocks, width)[starts]
        return clash_where(apart & (since > self._order.seen(number)[others]), others)

    def _unordered_reads(self, starts: Array, width: int, number: int, *, volatile: bool) -> Reads | None:
        """Others' reads of these cells; volatile ones among them only where asked for."""
        for epochs, numbers in zip(self._readers, self._numbers, strict=True):
            clash = self._unordered(epochs, starts, width, number)
            if clash is None:
                continue
            loads = numbers[starts[clash.rows] + clash.columns]
            plain = loads >= 0
            if volatile:
                return Reads(clash, np.where(plain, loads, ~loads))
            if plain.any():
                return Reads(Clash(clash.rows[plain], clash.columns[plain], clash.others[plain]), loads[plain])
        return None
