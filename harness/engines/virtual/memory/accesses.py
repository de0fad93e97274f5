"""Loads, stores and atomics of all programs that run side by side, with every check.

An access is first converted to rows: a start element and a common width.  Neighbours along the last axis become one
row, and everything else becomes rows of width one.  Rows inside their argument are moved at once.  Other rows are
recorded lane by lane and dropped, so a stray access can never harm the process.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from harness.engines.ttir.ir import Type
from harness.engines.virtual.memory.arguments import Argument
from harness.engines.virtual.memory.events import EventCollector, Place
from harness.engines.virtual.memory.pointers import Pointers
from harness.engines.virtual.memory.rows import Rows, as_lanes, as_rows, block_shape
from harness.engines.virtual.memory.shadow import Clash, Reads
from harness.engines.virtual.memory.views import View, elements_at
from harness.engines.virtual.numbers.elements import Array, bits_of, carrier, decode, encode, storage
from harness.errors import CannotExecute
from harness.model.run import Access, AddressSpace

WITHIN_PROGRAM = "cta"
"""The scope of atomics that only the threads of one program see as atomic."""
_READING = ("load",)
"""The kind of an atomic that changes nothing."""


@dataclass(frozen=True, slots=True)
class BlockAccess:
    """One access to a block, by all programs that run side by side."""

    location: str
    pointers: Pointers
    kind: Type
    """The type that one program loads or stores."""
    mask: Array | None
    numbers: Array
    """The programs' numbers (id + 1), along the leading axis."""
    keywords: tuple[str, ...] = ()
    """The kind, memory order and scope of an atomic, as written in TTIR: `add`, `acq_rel`, `gpu`."""
    volatile: bool = False
    is_store: bool = False
    """An atomic that uses no old value."""

    @property
    def place(self) -> Place:
        """The key under which the events of this access are collected."""
        return self.location, self.pointers.argument

    def lanes_each(self, shape: tuple[int, ...]) -> int:
        """Return how many lanes of the programs' whole blocks one lane of an un-broadcast block stands for."""
        return len(self.numbers) * prod(self.kind.shape) // max(1, prod(shape))


class Memory:
    """The memory of one launch."""

    def __init__(self, arguments: list[Argument], events: EventCollector) -> None:
        self.arguments = arguments
        self.events = events
        self._load_numbers: dict[Place, int] = {}
        """The number that shadow memory keeps with the reader, for each load."""
        self._load_places: list[Place] = []
        self._updaters: dict[tuple[int, int], Array] = {}
        """By address and element size, for each element of a buffer the number of a program that updated it.

        Only buffers that an atomic within one program has updated are here.
        """

    # --- the three accesses ---

    def load(self, access: BlockAccess, other: Array) -> Array:
        """Return the loaded block, as un-broadcast as its pointers, its mask and `other` are.

        Masked-off lanes hold `other`.  Lanes outside the storage hold zero.
        """
        element = access.kind.element
        if access.mask is None:
            other = np.zeros(1, carrier(element))
            shape = block_shape(access.pointers, None)
        else:
            shape = block_shape(access.pointers, access.mask, other.shape)
        view = self.view_of(access)
        requested = rows_of_access(access, view, shape)
        rows = self.drop_out_of_bounds(access, view, requested, shape, Access.LOAD)
        if view is None or not len(rows.starts):
            loaded = np.zeros((0, 1), self.carrier(element))
        else:
            loaded = self.loaded(access, view, rows)
        if rows.is_whole:
            return loaded.reshape(shape)
        result = np.empty(shape, self.carrier(element))
        result[...] = other
        result = result.reshape(requested.block)
        if rows is not requested:
            requested.put(result, 0)
        rows.put(result, loaded)
        return result.reshape(shape)

    def store(self, access: BlockAccess, values: Array) -> None:
        """Store a block, once for every program, even if pointers, values and mask are the same for all."""
        programs = (len(access.numbers),) + (1,) * (values.ndim - 1)
        shape = block_shape(access.pointers, access.mask, programs, values.shape)
        view = self.view_of(access)
        rows = self.drop_out_of_bounds(access, view, rows_of_access(access, view, shape), shape, Access.STORE)
        if view is None or not len(rows.starts):
            return
        raw = np.ascontiguousarray(encode(np.ascontiguousarray(rows.take(values, shape)), access.kind.element))
        starts, width = view.cells(rows)
        earlier, together, reads = view.buffer.shadow.store(starts, width, rows.programs)
        # Compare with earlier stores before this one overwrites them.
        same_before = None if earlier is None else view.holds(rows, raw, earlier) & (not earlier.atomic)
        if reads is not None and reads.own.any():
            reads = reads.part(~reads.own | ~view.holds(rows, raw, reads.clash))
        self.write(view, rows, raw)
        if earlier is not None and same_before is not None:
            self._record_overlap(access, view, rows, earlier, same_before)
        if together is not None:
            self._record_overlap(access, view, rows, together, view.holds(rows, raw, together))
        if reads is not None:
            self.record_reads(view.buffer.shadow.cell_bytes, rows, starts, reads)

    def atomic(self, access: BlockAccess) -> tuple[Rows, Array | None]:
        """Return the lanes of an atomic, and a flat view of the argument's elements for the caller to update.

        `Rows.starts` are indices into that view.  The view is None if no lane is left.
        """
        shape = (len(access.numbers), *access.kind.shape)
        view = self.view_of(access)
        rows = as_lanes(access.pointers, access.mask, shape, access.numbers)
        rows = self.drop_out_of_bounds(access, view, rows, shape, Access.ATOMIC)
        if view is None or not len(rows.starts):
            return rows, None
        first = view.argument.first_byte
        if first % view.size:
            raise CannotExecute("an atomic at an address that is no multiple of its size")
        dtype = storage(access.kind.element)
        if not access.is_store:
            self._record_uninitialised_reads(access, view, rows, view.read(rows, dtype))
        lanes = Rows(rows.starts + first // view.size, 1, rows.programs, rows.selected, rows.block, rows.shared_by)
        self._record_updaters(access, view, rows, lanes)
        return lanes, view.buffer.as_type(dtype)

    # --- bounds ---

    def view_of(self, access: BlockAccess) -> View | None:
        """Return the argument in elements of the access; None for a null pointer."""
        argument = self.arguments[access.pointers.argument]
        return argument.buffer and View(argument, argument.buffer, access.pointers.element_bytes)

    def drop_out_of_bounds(
        self, access: BlockAccess, view: View | None, rows: Rows, shape: tuple[int, ...], direction: Access
    ) -> Rows:
        """Record stray lanes and return the other rows; return `rows` itself if no lane strays.

        A load may read anything in the storage.  Stores and atomics may touch elements of the tensor only.  A view with
        a stride of 0 says nothing of what a kernel reads along that axis: libraries make such views to index there.
        """
        lanes_each = access.lanes_each(shape)
        elements = rows.starts
        if view is None:
            if len(elements):
                argument = self.arguments[access.pointers.argument]
                own = elements * access.pointers.element_bytes // argument.element_bytes
                region = AddressSpace.UNKNOWN_POINTER if argument.is_unknown_address else AddressSpace.NULL
                self.events.stray((*access.place, direction, region), own, rows.ids, lanes_each)
            return rows.subset(np.zeros(len(elements), np.bool_))
        if view.contains(rows):
            return rows
        in_storage = view.in_storage(elements)
        in_view = (elements >= 0) & (elements < view.extent)
        covered = in_view & view.covers(elements)
        if direction is Access.LOAD and view.argument.has_still_axis:
            in_view = covered = in_storage
        for region, stray in (
            (AddressSpace.OUTSIDE_STORAGE, ~in_storage),
            (AddressSpace.OUTSIDE_VIEW, in_storage & ~in_view),
            (AddressSpace.IN_GAP, in_view & ~covered),
        ):
            if stray.any():
                own = view.in_own_elements(elements[stray])
                self.events.stray((*access.place, direction, region), own, rows.ids[stray], lanes_each)
        return rows.subset(in_storage if direction is Access.LOAD else covered)

    # --- steps that a subclass extends ---

    def carrier(self, element: str) -> type[np.generic]:
        """Return the NumPy type of loaded values."""
        return carrier(element)

    def loaded(self, access: BlockAccess, view: View, rows: Rows) -> Array:
        """Return the values of rows that lie in the storage, and record the load."""
        raw = view.read(rows, storage(access.kind.element))
        self._record_uninitialised_reads(access, view, rows, raw)
        self.record_load(access, view, rows)
        return decode(raw, access.kind.element)

    def write(self, view: View, rows: Rows, raw: Array) -> None:
        view.write(rows, raw)

    def load_number(self, place: Place) -> int:
        """Return the number of a load in shadow memory."""
        if place not in self._load_numbers:
            self._load_numbers[place] = len(self._load_places)
            self._load_places.append(place)
        return self._load_numbers[place]

    def record_load(self, access: BlockAccess, view: View, rows: Rows) -> None:
        """Enter a load into shadow memory, and record which elements other programs stored."""
        buffer = view.buffer
        if not buffer.track_readers:
            return
        starts, width = view.cells(rows)
        # Shadow memory keeps two readers per cell, so two of all programs that share the access are enough.
        readers = [np.full_like(rows.programs, number) for number in rows.shared_by[:-3:-1]] or [rows.programs]
        for programs in readers:
            clash = buffer.shadow.load(starts, width, programs, self.load_number(access.place))
            if clash is not None:
                elements = elements_at(view.argument, buffer.shadow.cell_bytes, starts, clash)
                self.events.dependence(access.place, elements, programs[clash.rows] - 1, clash.programs - 1)

    def _record_overlap(self, access: BlockAccess, view: View, rows: Rows, clash: Clash, same_bytes: Array) -> None:
        """Record a store to cells that others store, too; `same_bytes` is a mask of the cells."""
        shadow, (starts, _) = view.buffer.shadow, view.cells(rows)
        elements = elements_at(view.argument, shadow.cell_bytes, starts, clash)
        is_same = bool(same_bytes.all())
        self.events.overlap(access.place, elements, pairs_of(rows, clash), same_bytes=is_same, atomic=clash.atomic)
        cells = starts[clash.rows] + clash.columns
        shadow.repeated.add(cells, rows.programs[clash.rows], clash.programs)
        shadow.repeated.differ(cells[~same_bytes])

    def record_reads(self, cell_bytes: int, rows: Rows, starts: Array, reads: Reads, *, atomic: bool = False) -> None:
        """Record stores or atomics to cells that others read.  Each event belongs to the place of the load."""
        clash = reads.clash
        for load in np.unique(reads.loads):
            here = reads.loads == load
            place = self._load_places[load]
            cells = Clash(clash.rows[here], clash.columns[here], clash.programs[here])
            elements = elements_at(self.arguments[place[1]], cell_bytes, starts, cells)
            self.events.dependence(place, elements, cells.programs - 1, rows.ids[cells.rows], atomic=atomic)

    def _record_updaters(self, access: BlockAccess, view: View, rows: Rows, lanes: Rows) -> None:
        """Record updates of elements that another program updated, if either atomic holds within a program only."""
        key = view.buffer.address, view.size
        if access.keywords[:1] == _READING or (WITHIN_PROGRAM not in access.keywords and key not in self._updaters):
            return
        updaters = self._updaters.setdefault(key, np.zeros(view.buffer.size_bytes // view.size, np.int32))
        before = updaters[lanes.starts]
        updaters[lanes.starts] = np.where(before, before, lanes.programs)
        # Read back: where lanes of this access share an element, only one of their programs is there.
        winners = updaters[lanes.starts]
        clashing = winners != lanes.programs
        if clashing.any():
            elements = view.in_own_elements(rows.starts[clashing])
            self.events.narrow_atomic(access.place, elements, rows.ids[clashing], winners[clashing] - 1)

    def _record_uninitialised_reads(self, access: BlockAccess, view: View, rows: Rows, raw: Array) -> None:
        poison = view.buffer.poison
        if poison is None or poison.size != raw.dtype.itemsize:
            return
        fresh = bits_of(np.ascontiguousarray(raw)) == poison.pattern
        if fresh.any():
            row, column = np.nonzero(fresh)
            elements = view.in_own_elements(rows.starts[row] + column)
            self.events.uninitialised(access.place, elements, rows.ids[row])


def rows_of_access(access: BlockAccess, view: View | None, shape: tuple[int, ...]) -> Rows:
    """Return rows if all of them lie inside, else lanes, so that strays can be recorded one by one."""
    rows = as_rows(access.pointers, access.mask, shape, access.numbers)
    if rows.width > 1 and (view is None or not view.contains(rows)):
        return as_lanes(access.pointers, access.mask, shape, access.numbers)
    return rows


def pairs_of(rows: Rows, clash: Clash) -> tuple[Array, Array]:
    """Return the ids of the programs that met, as two arrays."""
    return rows.ids[clash.rows], clash.programs - 1
