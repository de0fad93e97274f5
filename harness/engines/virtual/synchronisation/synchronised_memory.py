"""The memory of scheduled programs: yields to other programs, maintains clocks, and reports changes of memory.

Programs run one at a time.  A program yields before each atomic and each volatile load.  The effect of an atomic is
examined at the program's next access, since `Memory.atomic` returns before the handler applies the update.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from harness.engines.virtual.memory.accesses import WITHIN_PROGRAM, BlockAccess, Memory, pairs_of
from harness.engines.virtual.memory.arguments import Argument, Buffer
from harness.engines.virtual.memory.events import EventCollector
from harness.engines.virtual.memory.rows import Rows
from harness.engines.virtual.memory.shadow import Clash
from harness.engines.virtual.memory.views import View, elements_at
from harness.engines.virtual.numbers.elements import Array, bits_of
from harness.engines.virtual.synchronisation.clocks import ACQUIRING, RELEASING, Cell, Clocks
from harness.engines.virtual.synchronisation.ordered_shadow import OrderedShadow
from harness.engines.virtual.synchronisation.wakeups import Read

COMPARE_AND_SWAP, LOAD = "cas", "load"


class RunningProgram(Protocol):
    """The running program, as the memory uses it."""

    reads: list[Read] | None
    """The list to which reads are appended; None while they are not recorded."""

    def yield_turn(self) -> None:
        """Let the other ready programs run first."""
        ...

    def memory_changed(self, buffer: Buffer, first_bytes: Array, width: int) -> None:
        """Called when the program changed the contents of rows of bytes."""
        ...


@dataclass(frozen=True, slots=True)
class _Atomic:
    """An atomic whose update the handler is applying."""

    number: int
    buffer: Buffer
    flat: Array
    """The whole buffer, as elements of the atomic's type."""
    lanes: Array
    """Indices of the elements that it updates."""
    before: Array
    first_bytes: Array
    releases: bool
    is_swap: bool


class SynchronisedMemory(Memory):
    """Memory that one program accesses at a time; `running` returns that program."""

    def __init__(
        self, arguments: list[Argument], events: EventCollector, clocks: Clocks, running: Callable[[], RunningProgram]
    ) -> None:
        super().__init__(arguments, events)
        self._clocks = clocks
        self._running = running
        self._atomic: _Atomic | None = None
        self._shadowed = 0
        """The number of arguments that have an ordered shadow."""
        self._add_shadows()

    def finish_atomic(self) -> None:
        """Examine the effect of the last atomic: wake waiting programs, and release to its cells."""
        atomic, self._atomic = self._atomic, None
        if atomic is None:
            return
        differs = bits_of(atomic.flat[atomic.lanes]) != bits_of(atomic.before)
        if differs.any():
            self._running().memory_changed(atomic.buffer, atomic.first_bytes[differs], atomic.flat.itemsize)
        if atomic.releases:  # a failed compare-and-swap stores nothing, and so releases nothing
            released = atomic.first_bytes[differs] if atomic.is_swap else atomic.first_bytes
            if len(released):
                self._clocks.release(atomic.number, _cells(atomic.buffer, released))

    # --- the three accesses ---

    def load(self, access: BlockAccess, other: Array) -> Array:
        self._before_access()
        if access.volatile:
            self._running().yield_turn()
        return super().load(access, other)

    def store(self, access: BlockAccess, values: Array) -> None:
        self._before_access()
        super().store(access, values)

    def atomic(self, access: BlockAccess) -> tuple[Rows, Array | None]:
        # Acquire before the access is recorded: it then comes after what the releases order.
        self._before_access()
        self._running().yield_turn()
        rows, flat = super().atomic(access)
        argument = self.arguments[access.pointers.argument]
        if flat is None or argument.buffer is None:
            return rows, flat
        number, first_bytes = int(rows.programs[0]), rows.starts * flat.itemsize
        self._record_read(access, argument, first_bytes, flat.itemsize)
        kind, order, scope = access.keywords
        if order in ACQUIRING and scope != WITHIN_PROGRAM:
            self._clocks.acquire(number, _cells(argument.buffer, first_bytes))
        self._record_atomic(access, argument, rows, first_bytes, flat.itemsize)
        self._atomic = _Atomic(
            number=number,
            buffer=argument.buffer,
            flat=flat,
            lanes=rows.starts,
            before=flat[rows.starts],
            first_bytes=first_bytes,
            releases=order in RELEASING and scope != WITHIN_PROGRAM,
            is_swap=kind == COMPARE_AND_SWAP,
        )
        return rows, flat

    def _before_access(self) -> None:
        """Finish the last atomic, and add shadows to tensors that were found through addresses since."""
        self.finish_atomic()
        if self._shadowed < len(self.arguments):
            self._add_shadows()

    def _add_shadows(self) -> None:
        """Add shadows to arguments that have none yet."""
        for buffer in {argument.buffer for argument in self.arguments[self._shadowed :] if argument.buffer is not None}:
            buffer.shadow = OrderedShadow(buffer.size_bytes, buffer.cell_bytes, self._clocks)
        self._shadowed = len(self.arguments)

    # --- recording ---

    def write(self, view: View, rows: Rows, raw: Array) -> None:
        """Overwrite the rows of a store, and report those whose contents changed."""
        contents = np.ascontiguousarray(view.read(rows, raw.dtype.type))
        differs = (bits_of(contents) != bits_of(raw)).any(axis=1)
        view.write(rows, raw)
        first_bytes = rows.starts * view.size + view.argument.first_byte
        width = rows.width * view.size
        if differs.any():
            self._running().memory_changed(view.buffer, first_bytes[differs], width)
        self._clocks.forget(view.buffer.address, first_bytes, width)

    def record_load(self, access: BlockAccess, view: View, rows: Rows) -> None:
        """Record a load in the shadow, and its conflicts with unordered stores."""
        first_bytes = rows.starts * view.size + view.argument.first_byte
        self._record_read(access, view.argument, first_bytes, rows.width * view.size)
        if not view.buffer.track_readers:
            return
        starts, width = view.cells(rows)
        shadow = _ordered_shadow(view.buffer)
        record = shadow.poll if access.volatile else shadow.load
        clash = record(starts, width, rows.programs, self.load_number(access.place))
        self._record_dependence(access, view.argument, rows, starts, clash)

    def _record_read(self, access: BlockAccess, argument: Argument, first_bytes: Array, width: int) -> None:
        reads = self._running().reads
        if reads is not None and argument.buffer is not None:
            elements = (first_bytes - argument.first_byte) // argument.element_bytes
            reads.append(Read(access.place, argument.buffer, elements, first_bytes, width))

    def _record_atomic(
        self, access: BlockAccess, argument: Argument, rows: Rows, first_bytes: Array, size: int
    ) -> None:
        assert argument.buffer is not None
        shadow = _ordered_shadow(argument.buffer)
        if size < shadow.cell_bytes:
            shadow.refine(size)
        starts, width = first_bytes // shadow.cell_bytes, size // shadow.cell_bytes
        if access.keywords[0] == LOAD:
            clash = shadow.poll(starts, width, rows.programs, self.load_number(access.place))
            self._record_dependence(access, argument, rows, starts, clash)
            return
        clash, reads = shadow.atomic(starts, width, int(rows.programs[0]))
        if clash is not None:
            elements = elements_at(argument, shadow.cell_bytes, starts, clash)
            updater, storer = pairs_of(rows, clash)
            self.events.overlap(access.place, elements, (storer, updater), same_bytes=False, atomic=True)
        if reads is not None:
            self.record_reads(shadow.cell_bytes, rows, starts, reads, atomic=True)

    def _record_dependence(
        self, access: BlockAccess, argument: Argument, rows: Rows, starts: Array, clash: Clash | None
    ) -> None:
        if clash is not None and argument.buffer is not None:
            elements = elements_at(argument, argument.buffer.shadow.cell_bytes, starts, clash)
            self.events.dependence(access.place, elements, *pairs_of(rows, clash), atomic=clash.atomic)


def _ordered_shadow(buffer: Buffer) -> OrderedShadow:
    assert isinstance(buffer.shadow, OrderedShadow)
    return buffer.shadow


def _cells(buffer: Buffer, first_bytes: Array) -> list[Cell]:
    return [(buffer.address, byte) for byte in first_bytes.tolist()]
