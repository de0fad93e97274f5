"""The memory of a launch whose programs synchronise: who gives way where, what happened before what, what changed.

Programs come one at a time.  Before an atomic and a volatile load the program gives way to the others.  What an atomic
did is looked at when its program does the next thing, for only then the operation has been applied.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from harness.virtual.memory.accesses import Memory, Step, pairs_of
from harness.virtual.memory.arguments import Argument, Buffer
from harness.virtual.memory.events import EventCollector
from harness.virtual.memory.rows import Rows
from harness.virtual.memory.shadow import Clash
from harness.virtual.memory.views import View, elements_at
from harness.virtual.numbers.elements import Array, bits_of
from harness.virtual.synchronisation.clocks import ACQUIRING, RELEASING, WITHIN_PROGRAM, Cell, Clocks
from harness.virtual.synchronisation.ordered_shadow import OrderedShadow
from harness.virtual.synchronisation.wakeups import Read

COMPARE_AND_SWAP, LOAD = "cas", "load"


class Turn(Protocol):
    """The program whose turn it is."""

    reads: list[Read] | None
    """Where what it reads is noted; None while that is not wanted."""

    def give_way(self) -> None:
        """Let the others go on first."""
        ...

    def changed(self, buffer: Buffer, first_bytes: Array, width: int) -> None:
        """It changed what rows of bytes hold."""
        ...


@dataclass(frozen=True, slots=True)
class _Atomic:
    """An atomic that is being applied."""

    number: int
    buffer: Buffer
    flat: Array
    """The buffer's elements."""
    lanes: Array
    """Those that it updates."""
    before: Array
    first_bytes: Array
    releases: bool
    is_swap: bool


class SynchronisedMemory(Memory):
    """One program accesses it at a time: the one that `turn` tells."""

    def __init__(
        self, arguments: list[Argument], events: EventCollector, clocks: Clocks, turn: Callable[[], Turn]
    ) -> None:
        super().__init__(arguments, events)
        self._clocks = clocks
        self._turn = turn
        self._atomic: _Atomic | None = None
        self._known = 0
        """So many arguments have their shadows."""
        self._order_new()

    def settle(self) -> None:
        """Look at what the last atomic did."""
        done, self._atomic = self._atomic, None
        if done is None:
            return
        differs = bits_of(done.flat[done.lanes]) != bits_of(done.before)
        if differs.any():
            self._turn().changed(done.buffer, done.first_bytes[differs], done.flat.itemsize)
        if done.releases:  # a failed compare-and-swap stores nothing, and so releases nothing
            touched = done.first_bytes[differs] if done.is_swap else done.first_bytes
            if len(touched):
                self._clocks.release(done.number, _cells(done.buffer, touched))

    # --- the three accesses ---

    def load(self, step: Step, other: Array) -> Array:
        """As without synchronisation; a volatile one lets others go first."""
        self._begin()
        if step.volatile:
            self._turn().give_way()
        return super().load(step, other)

    def store(self, step: Step, values: Array) -> None:
        """As without synchronisation."""
        self._begin()
        super().store(step, values)

    def atomic(self, step: Step) -> tuple[Rows, Array | None]:
        """As without synchronisation; others go first, and what the cells' releases tell is learnt."""
        self._begin()
        self._turn().give_way()
        rows, flat = super().atomic(step)
        argument = self.arguments[step.pointers.argument]
        if flat is None or argument.buffer is None:
            return rows, flat
        number, first_bytes = int(rows.programs[0]), rows.starts * flat.itemsize
        self._note_poll(step, argument, first_bytes, flat.itemsize)
        kind, order, scope = step.words
        if order in ACQUIRING and scope != WITHIN_PROGRAM:
            self._clocks.acquire(number, _cells(argument.buffer, first_bytes))
        self._note_atomic(step, argument, rows, first_bytes, flat.itemsize)
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

    def _begin(self) -> None:
        """Before an access: look at the last atomic, and at tensors that addresses have led to since."""
        self.settle()
        if self._known < len(self.arguments):
            self._order_new()

    def _order_new(self) -> None:
        """Give arguments that have none yet their shadows."""
        for buffer in {argument.buffer for argument in self.arguments[self._known :] if argument.buffer is not None}:
            buffer.shadow = OrderedShadow(buffer.size_bytes, buffer.granule, self._clocks)
        self._known = len(self.arguments)

    # --- what is noted ---

    def write(self, view: View, rows: Rows, raw: Array) -> None:
        """Overwrite the rows of a store, and say which of them held something else."""
        held = np.ascontiguousarray(view.read(rows, raw.dtype.type))
        differs = (bits_of(held) != bits_of(raw)).any(axis=1)
        view.write(rows, raw)
        first_bytes = rows.starts * view.size + view.argument.first_byte
        width = rows.width * view.size
        if differs.any():
            self._turn().changed(view.buffer, first_bytes[differs], width)
        self._clocks.forget(view.buffer.address, first_bytes, width)

    def note_load(self, step: Step, view: View, rows: Rows) -> None:
        """Tell the shadow of a load, and record where it meets a store that nothing orders."""
        first_bytes = rows.starts * view.size + view.argument.first_byte
        self._note_poll(step, view.argument, first_bytes, rows.width * view.size)
        if not view.buffer.track_readers:
            return
        starts, width = view.cells(rows)
        shadow = _ordered(view.buffer)
        note = shadow.poll if step.volatile else shadow.load
        clash = note(starts, width, rows.programs, self.load_number(step.place))
        self._note_dependence(step, view.argument, rows, starts, clash)

    def _note_poll(self, step: Step, argument: Argument, first_bytes: Array, width: int) -> None:
        reads = self._turn().reads
        if reads is not None and argument.buffer is not None:
            elements = (first_bytes - argument.first_byte) // argument.element_bytes
            reads.append(Read(step.place, argument.buffer, elements, first_bytes, width))

    def _note_atomic(self, step: Step, argument: Argument, rows: Rows, first_bytes: Array, size: int) -> None:
        assert argument.buffer is not None
        shadow = _ordered(argument.buffer)
        if size < shadow.granule:
            shadow.refine(size)
        starts, width = first_bytes // shadow.granule, size // shadow.granule
        if step.words[0] == LOAD:
            found = shadow.poll(starts, width, rows.programs, self.load_number(step.place))
            self._note_dependence(step, argument, rows, starts, found)
            return
        clash, reads = shadow.atomic(starts, width, int(rows.programs[0]))
        if clash is not None:
            elements = elements_at(argument, shadow.granule, starts, clash)
            updater, storer = pairs_of(rows, clash)
            self.events.overlap(step.place, elements, (storer, updater), same_bytes=False, atomic=True)
        if reads is not None:
            self.note_reads(shadow.granule, rows, starts, reads, atomic=True)

    def _note_dependence(self, step: Step, argument: Argument, rows: Rows, starts: Array, clash: Clash | None) -> None:
        if clash is not None and argument.buffer is not None:
            elements = elements_at(argument, argument.buffer.shadow.granule, starts, clash)
            self.events.dependence(step.place, elements, *pairs_of(rows, clash), atomic=clash.atomic)


def _ordered(buffer: Buffer) -> OrderedShadow:
    assert isinstance(buffer.shadow, OrderedShadow)
    return buffer.shadow


def _cells(buffer: Buffer, first_bytes: Array) -> list[Cell]:
    return [(buffer.address, byte) for byte in first_bytes.tolist()]
