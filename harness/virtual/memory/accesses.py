"""Loads, stores and atomics of one step of all programs, with every check on.

An access is first brought into rows (a start element and a common width): neighbours along the last axis become one row
each, anything else rows of width one.  Rows that stay inside what their argument covers are moved at once; the others
are taken apart lane by lane, recorded, and dropped, so that a stray access can never harm the process.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from harness.errors import CannotExecute
from harness.model.run import Access, AddressSpace
from harness.virtual.memory.arguments import Argument
from harness.virtual.memory.events import EventCollector, Place
from harness.virtual.memory.pointers import Pointers
from harness.virtual.memory.rows import Rows, as_lanes, as_rows, block_shape
from harness.virtual.memory.shadow import Clash, Reads
from harness.virtual.memory.views import View, elements_at
from harness.virtual.numbers.elements import Array, bits_of, carrier, decode, encode, storage
from harness.virtual.ttir.ir import Type


@dataclass(frozen=True, slots=True)
class Step:
    """One access of all programs that run side by side."""

    location: str
    pointers: Pointers
    kind: Type
    """What is loaded or stored, as one program sees it."""
    mask: Array | None
    numbers: Array
    """The programs' numbers (id + 1), by the leading axis."""
    words: tuple[str, ...] = ()
    """An atomic's kind, memory order and scope, as TTIR writes them: `add`, `acq_rel`, `gpu`."""
    volatile: bool = False
    """Whether it is a volatile load."""

    @property
    def place(self) -> Place:
        """Under what the step's events are gathered."""
        return self.location, self.pointers.argument

    def lanes_each(self, shape: tuple[int, ...]) -> int:
        """How many lanes of all programs' whole blocks each lane of an un-broadcast block stands for."""
        return len(self.numbers) * prod(self.kind.shape) // max(1, prod(shape))


class Memory:
    """The memory of one launch."""

    def __init__(self, arguments: list[Argument], events: EventCollector) -> None:
        self.arguments = arguments
        self.events = events
        self._loads: dict[Place, int] = {}
        """A number for each load, kept in the shadow beside its reader."""
        self._load_places: list[Place] = []

    # --- the three accesses ---

    def load(self, step: Step, other: Array) -> Array:
        """The loaded block, as un-broadcast as its pointers, its mask and `other` are.

        Lanes that are masked off hold `other`, those that leave the storage hold zero.
        """
        element = step.kind.element
        if step.mask is None:
            other = np.zeros(1, carrier(element))
            shape = block_shape(step.pointers, None)
        else:
            shape = block_shape(step.pointers, step.mask, other.shape)
        view = self._view(step)
        asked = _rows(step, view, shape)
        rows = self._without_strays(step, view, asked, shape, Access.LOAD)
        if view is None or not len(rows.starts):
            loaded = np.zeros((0, 1), carrier(element))
        else:
            raw = view.read(rows, storage(element))
            self._check_initialised(step, view, rows, raw)
            self.note_load(step, view, rows)
            loaded = decode(raw, element)
        if rows.whole:
            return loaded.reshape(shape)
        result = np.empty(shape, carrier(element))
        result[...] = other
        result = result.reshape(asked.block)
        if rows is not asked:
            asked.put(result, 0)
        rows.put(result, loaded)
        return result.reshape(shape)

    def store(self, step: Step, values: Array) -> None:
        """Store a block, for every program, even where pointers, values and mask are the same for all."""
        shape = block_shape(step.pointers, step.mask, (len(step.numbers),) + (1,) * (values.ndim - 1), values.shape)
        view = self._view(step)
        rows = self._without_strays(step, view, _rows(step, view, shape), shape, Access.STORE)
        if view is None or not len(rows.starts):
            return
        raw = np.ascontiguousarray(encode(np.ascontiguousarray(rows.take(values, shape)), step.kind.element))
        starts, width = view.cells(rows)
        earlier, together, reads = view.buffer.shadow.store(starts, width, rows.programs)
        same_before = earlier is None or (not earlier.atomic and view.holds(rows, raw, earlier))
        self.write(view, rows, raw)
        granule = view.buffer.shadow.granule
        if earlier is not None:
            elements = elements_at(view.argument, granule, starts, earlier)
            pairs = pairs_of(rows, earlier)
            self.events.overlap(step.place, elements, pairs, same_bytes=same_before, atomic=earlier.atomic)
        if together is not None:
            elements = elements_at(view.argument, granule, starts, together)
            same = view.holds(rows, raw, together)
            self.events.overlap(step.place, elements, pairs_of(rows, together), same_bytes=same)
        if reads is not None:
            self.note_reads(granule, rows, starts, reads)

    def atomic(self, step: Step) -> tuple[Rows, Array | None]:
        """The lanes of an atomic and a flat view of the argument's elements to work on; None where nothing is left.

        `Rows.starts` then index that view.
        """
        shape = (len(step.numbers), *step.kind.shape)
        view = self._view(step)
        rows = as_lanes(step.pointers, step.mask, shape, step.numbers)
        rows = self._without_strays(step, view, rows, shape, Access.ATOMIC)
        if view is None or not len(rows.starts):
            return rows, None
        first = view.argument.first_byte
        if first % view.size:
            raise CannotExecute("an atomic at an address that is no multiple of its size")
        dtype = storage(step.kind.element)
        self._check_initialised(step, view, rows, view.read(rows, dtype))
        lanes = Rows(rows.starts + first // view.size, 1, rows.programs, rows.picked, rows.block, rows.alike)
        return lanes, view.buffer.as_type(dtype)

    # --- bounds ---

    def _view(self, step: Step) -> View | None:
        """The argument in the access's elements; None for a null pointer."""
        argument = self.arguments[step.pointers.argument]
        return argument.buffer and View(argument, argument.buffer, step.pointers.element_bytes)

    def _without_strays(
        self, step: Step, view: View | None, rows: Rows, shape: tuple[int, ...], access: Access
    ) -> Rows:
        """Record the lanes that stray, and return those that may go on; the rows themselves where none strays."""
        lanes_each = step.lanes_each(shape)
        elements = rows.starts
        if view is None:
            if len(elements):
                argument = self.arguments[step.pointers.argument]
                own = elements * step.pointers.element_bytes // argument.element_bytes
                region = AddressSpace.UNKNOWN_POINTER if argument.is_nobodys else AddressSpace.NULL
                self.events.stray((*step.place, access, region), own, rows.ids, lanes_each)
            return rows.subset(np.zeros(len(elements), np.bool_))
        if view.inside(rows):
            return rows
        in_storage = view.in_storage(elements)
        in_view = (elements >= 0) & (elements < view.extent)
        covered = in_view & view.covers(elements)
        for region, stray in (
            (AddressSpace.OUTSIDE_STORAGE, ~in_storage),
            (AddressSpace.OUTSIDE_VIEW, in_storage & ~in_view),
            (AddressSpace.IN_GAP, in_view & ~covered),
        ):
            if stray.any():
                own = view.in_own(elements[stray])
                self.events.stray((*step.place, access, region), own, rows.ids[stray], lanes_each)
        return rows.subset(in_storage if access is Access.LOAD else covered)

    # --- what is noted ---

    def write(self, view: View, rows: Rows, raw: Array) -> None:
        """Overwrite the rows of a store."""
        view.write(rows, raw)

    def load_number(self, place: Place) -> int:
        """The number under which the shadow keeps a load."""
        if place not in self._loads:
            self._loads[place] = len(self._load_places)
            self._load_places.append(place)
        return self._loads[place]

    def note_load(self, step: Step, view: View, rows: Rows) -> None:
        """Tell the shadow of a load, and record where it meets what another program stored."""
        buffer = view.buffer
        if not buffer.track_readers:
            return
        starts, width = view.cells(rows)
        readers = [np.full_like(rows.programs, number) for number in rows.alike[:-3:-1]] or [rows.programs]
        for programs in readers:
            clash = buffer.shadow.load(starts, width, programs, self.load_number(step.place))
            if clash is not None:
                elements = elements_at(view.argument, buffer.shadow.granule, starts, clash)
                self.events.dependence(step.place, elements, programs[clash.rows] - 1, clash.others - 1)

    def note_reads(self, granule: int, rows: Rows, starts: Array, reads: Reads, *, atomic: bool = False) -> None:
        """Stores or atomics into cells that others read: each is reported at the other's load."""
        clash = reads.clash
        for load in np.unique(reads.loads):
            here = reads.loads == load
            place = self._load_places[load]
            cells = Clash(clash.rows[here], clash.columns[here], clash.others[here])
            elements = elements_at(self.arguments[place[1]], granule, starts, cells)
            self.events.dependence(place, elements, cells.others - 1, rows.ids[cells.rows], atomic=atomic)

    def _check_initialised(self, step: Step, view: View, rows: Rows, raw: Array) -> None:
        poison = view.buffer.poison
        if poison is None or poison.size != raw.dtype.itemsize:
            return
        fresh = bits_of(np.ascontiguousarray(raw)) == poison.pattern
        if fresh.any():
            row, column = np.nonzero(fresh)
            self.events.uninitialised(step.place, view.in_own(rows.starts[row] + column), rows.ids[row])


def _rows(step: Step, view: View | None, shape: tuple[int, ...]) -> Rows:
    """Rows where all lie inside, else lanes, so that strays can be told one by one."""
    rows = as_rows(step.pointers, step.mask, shape, step.numbers)
    if rows.width > 1 and (view is None or not view.inside(rows)):
        return as_lanes(step.pointers, step.mask, shape, step.numbers)
    return rows


def pairs_of(rows: Rows, clash: Clash) -> tuple[Array, Array]:
    """The ids of the programs that met."""
    return rows.ids[clash.rows], clash.others - 1
