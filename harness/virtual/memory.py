"""Loads, stores and atomics of one step of all programs, with every check on.

An access is first brought into rows (a start element and a common width): neighbours along the last axis become one row
each, anything else rows of width one.  Rows that stay inside what their argument covers are moved at once; the others
are taken apart lane by lane, recorded, and dropped, so that a stray access can never harm the process.
"""

from math import prod

import numpy as np

from harness.errors import CannotExecute
from harness.model.run import Access, Region
from harness.virtual.arguments import Argument, Buffer
from harness.virtual.elements import Array, bits_of, carrier, decode, encode, storage
from harness.virtual.events import Events, Place
from harness.virtual.ir import Type
from harness.virtual.pointers import Pointers
from harness.virtual.rows import Rows, as_lanes, as_rows, block_shape
from harness.virtual.shadow import Clash, Reads, rows_of


class Memory:
    """The memory of one launch."""

    def __init__(self, arguments: list[Argument], events: Events) -> None:
        self.arguments = arguments
        self.events = events
        self._loads: dict[Place, int] = {}
        """A number for each load, kept in the shadow beside its reader."""
        self._load_places: list[Place] = []

    # --- the three accesses ---

    def load(
        self, place: str, pointers: Pointers, kind: Type, mask: Array | None, other: Array, numbers: Array
    ) -> Array:
        """The loaded block of type `kind`, as un-broadcast as its pointers, mask and `other` are.

        Lanes that are masked off hold `other`, those that leave the storage hold zero.  `numbers` are the programs'
        numbers (id + 1), by the leading axis.
        """
        argument = self.arguments[pointers.argument]
        shape = block_shape(pointers, mask, *(() if mask is None else (other.shape,)))
        where = (place, pointers.argument)
        element = kind.element
        asked = self._rows(argument, pointers, mask, shape, numbers)
        rows = self._without_strays(where, argument, asked, pointers, Access.LOAD, _lanes_each(kind, numbers, shape))
        if argument.buffer is None or not len(rows.starts):
            loaded = np.zeros((0, 1), carrier(element))
        else:
            raw = self._read(argument, rows, pointers.element_bytes, storage(element))
            self._check_initialised(where, argument, argument.buffer, rows, raw)
            self._note_load(where, argument, argument.buffer, rows, pointers.element_bytes)
            loaded = decode(raw, element)
        if rows.whole:
            return loaded.reshape(shape)
        fill = np.zeros(1, carrier(element)) if mask is None else other
        result = np.broadcast_to(fill, shape).astype(carrier(element), order="C").reshape(asked.block)
        if rows is not asked:
            asked.put(result, 0)
        rows.put(result, loaded)
        return result.reshape(shape)

    def store(
        self, place: str, pointers: Pointers, values: Array, kind: Type, mask: Array | None, numbers: Array
    ) -> None:
        """Store a block, for every program of `numbers`, even where pointers, values and mask are the same for all."""
        argument = self.arguments[pointers.argument]
        shape = block_shape(pointers, mask, (len(numbers),) + (1,) * (values.ndim - 1), values.shape)
        where = (place, pointers.argument)
        rows = self._rows(argument, pointers, mask, shape, numbers)
        rows = self._without_strays(where, argument, rows, pointers, Access.STORE, _lanes_each(kind, numbers, shape))
        buffer = argument.buffer
        if buffer is None or not len(rows.starts):
            return
        raw = np.ascontiguousarray(encode(np.ascontiguousarray(rows.take(values, shape)), kind.element))
        starts, width = _granules(argument, buffer, rows, pointers.element_bytes)
        earlier, together, reads = buffer.shadow.store(starts, width, rows.programs)
        same_before = earlier is None or self._holds(argument, rows, pointers.element_bytes, raw, earlier, width)
        self._write(argument, rows, pointers.element_bytes, raw)
        if earlier is not None:
            self._note_overlap(where, argument, rows, starts, earlier, same_bytes=same_before)
        if together is not None:
            same = self._holds(argument, rows, pointers.element_bytes, raw, together, width)
            self._note_overlap(where, argument, rows, starts, together, same_bytes=same)
        if reads is not None:
            self._note_reads(buffer, rows, starts, reads)

    def atomic(
        self, place: str, pointers: Pointers, kind: Type, mask: Array | None, numbers: Array
    ) -> tuple[Rows, Array | None]:
        """The lanes of an atomic and a flat view of the argument's elements to work on; None where nothing is left.

        `Rows.starts` then index that view.
        """
        argument = self.arguments[pointers.argument]
        size = pointers.element_bytes
        if argument.first_byte % size:
            raise CannotExecute("an atomic at an address that is no multiple of its size")
        where = (place, pointers.argument)
        rows = as_lanes(pointers, mask, (len(numbers), *kind.shape), numbers)
        rows = self._without_strays(where, argument, rows, pointers, Access.ATOMIC, 1)
        buffer = argument.buffer
        if buffer is None or not len(rows.starts):
            return rows, None
        self._check_initialised(where, argument, buffer, rows, self._read(argument, rows, size, storage(kind.element)))
        starts = rows.starts + argument.first_byte // size
        lanes = Rows(starts, 1, rows.programs, rows.picked, rows.block, rows.alike)
        return lanes, buffer.as_type(storage(kind.element))

    # --- bounds ---

    def _rows(
        self, argument: Argument, pointers: Pointers, mask: Array | None, shape: tuple[int, ...], numbers: Array
    ) -> Rows:
        """Rows where all lie inside, else lanes, so that strays can be told one by one."""
        rows = as_rows(pointers, mask, shape, numbers)
        if rows.width > 1 and not _inside(argument, rows, pointers.element_bytes):
            return as_lanes(pointers, mask, shape, numbers)
        return rows

    def _without_strays(
        self, place: Place, argument: Argument, rows: Rows, pointers: Pointers, access: Access, lanes_each: int
    ) -> Rows:
        """Record the lanes that stray, and return those that may go on; the rows themselves where none strays.

        Each of these lanes stands for `lanes_each` of the whole block.
        """
        size = pointers.element_bytes
        if _inside(argument, rows, size):
            return rows
        own = rows.starts * size // argument.element_bytes
        if argument.buffer is None:
            self.events.stray(place, access, Region.NULL, own, rows.ids, lanes_each)
            return rows.subset(np.zeros(len(own), np.bool_))
        first = argument.first_byte + rows.starts * size
        in_storage = (first >= 0) & (first + size <= argument.buffer.size_bytes)
        in_view = (rows.starts >= 0) & (rows.starts < _extent(argument, size))
        covered = in_view & _covered(argument, rows.starts, size)
        for region, stray in (
            (Region.OUTSIDE_STORAGE, ~in_storage),
            (Region.OUTSIDE_VIEW, in_storage & ~in_view),
            (Region.IN_GAP, in_view & ~covered),
        ):
            if stray.any():
                self.events.stray(place, access, region, own[stray], rows.ids[stray], lanes_each)
        return rows.subset(in_storage if access is Access.LOAD else covered)

    # --- bytes ---

    def _read(self, argument: Argument, rows: Rows, element_bytes: int, dtype: type[np.generic]) -> Array:
        assert argument.buffer is not None
        if argument.first_byte % element_bytes == 0:
            starts = rows.starts + argument.first_byte // element_bytes
            flat = argument.buffer.as_type(dtype)
            return flat[starts][:, None] if rows.width == 1 else rows_of(flat, rows.width)[starts]
        starts = rows.starts * element_bytes + argument.first_byte
        return rows_of(argument.buffer.bytes, rows.width * element_bytes)[starts].view(dtype)

    def _write(self, argument: Argument, rows: Rows, element_bytes: int, raw: Array) -> None:
        assert argument.buffer is not None
        if argument.first_byte % element_bytes == 0:
            starts = rows.starts + argument.first_byte // element_bytes
            flat = argument.buffer.as_type(raw.dtype.type)
            if rows.width == 1:
                flat[starts] = raw[:, 0]
            else:
                rows_of(flat, rows.width)[starts] = raw
        else:
            starts = rows.starts * element_bytes + argument.first_byte
            rows_of(argument.buffer.bytes, rows.width * element_bytes)[starts] = raw.view(np.uint8)

    def _holds(self, argument: Argument, rows: Rows, element_bytes: int, raw: Array, clash: Clash, width: int) -> bool:
        """Whether memory holds the bytes of `raw` in all clashing cells."""
        held = np.ascontiguousarray(self._read(argument, rows, element_bytes, raw.dtype.type))
        cells = (len(raw), width, -1)
        there = held.view(np.uint8).reshape(cells)[clash.rows, clash.columns]
        return bool((there == raw.view(np.uint8).reshape(cells)[clash.rows, clash.columns]).all())

    # --- what is noted ---

    def _note_load(self, place: Place, argument: Argument, buffer: Buffer, rows: Rows, element_bytes: int) -> None:
        if not buffer.track_readers:
            return
        if place not in self._loads:
            self._loads[place] = len(self._load_places)
            self._load_places.append(place)
        starts, width = _granules(argument, buffer, rows, element_bytes)
        readers = [np.full_like(rows.programs, number) for number in rows.alike[:-3:-1]] or [rows.programs]
        for programs in readers:
            clash = buffer.shadow.load(starts, width, programs, self._loads[place])
            if clash is not None:
                elements = _elements(argument, buffer, starts, clash)
                self.events.dependence(place, elements, programs[clash.rows] - 1, clash.others - 1)

    def _note_reads(self, buffer: Buffer, rows: Rows, starts: Array, reads: Reads) -> None:
        """Stores into cells that others read: each is reported at the other's load."""
        clash = reads.clash
        for load in np.unique(reads.loads):
            here = reads.loads == load
            place = self._load_places[load]
            cells = Clash(clash.rows[here], clash.columns[here], clash.others[here])
            elements = _elements(self.arguments[place[1]], buffer, starts, cells)
            self.events.dependence(place, elements, cells.others - 1, rows.ids[cells.rows])

    def _note_overlap(
        self, place: Place, argument: Argument, rows: Rows, starts: Array, clash: Clash, *, same_bytes: bool
    ) -> None:
        assert argument.buffer is not None
        elements = _elements(argument, argument.buffer, starts, clash)
        self.events.overlap(place, elements, rows.ids[clash.rows], clash.others - 1, same_bytes=same_bytes)

    def _check_initialised(self, place: Place, argument: Argument, buffer: Buffer, rows: Rows, raw: Array) -> None:
        size = raw.dtype.itemsize
        if buffer.poison is None or buffer.poison.size != size:
            return
        fresh = bits_of(np.ascontiguousarray(raw)) == buffer.poison.pattern
        if fresh.any():
            row, column = np.nonzero(fresh)
            elements = (rows.starts[row] + column) * size // argument.element_bytes
            self.events.uninitialised(place, elements, rows.ids[row])


def _lanes_each(kind: Type, numbers: Array, shape: tuple[int, ...]) -> int:
    """How many lanes of all programs' whole blocks each lane of an un-broadcast access stands for."""
    return len(numbers) * prod(kind.shape) // max(1, prod(shape))


def granule_of(buffer: Buffer, arguments: list[Argument]) -> int:
    """The cell size that fits every argument that lies in the buffer."""
    sizes = [argument.element_bytes for argument in arguments if argument.buffer is buffer]
    askew = any(argument.first_byte % min(sizes) for argument in arguments if argument.buffer is buffer)
    return 1 if askew else min(sizes)


def _granules(argument: Argument, buffer: Buffer, rows: Rows, element_bytes: int) -> tuple[Array, int]:
    """The rows in cells of the buffer's shadow, which is refined where they do not fit."""
    granule = min(buffer.shadow.granule, element_bytes)
    if argument.first_byte % granule:
        granule = 1
    if granule < buffer.shadow.granule:
        buffer.shadow.refine(granule)
    per_element = element_bytes // granule
    return rows.starts * per_element + argument.first_byte // granule, rows.width * per_element


def _elements(argument: Argument, buffer: Buffer, starts: Array, clash: Clash) -> Array:
    """Clashing cells as element indices of the argument."""
    first_byte = (starts[clash.rows] + clash.columns) * buffer.shadow.granule
    return (first_byte - argument.first_byte) // argument.element_bytes


def _extent(argument: Argument, element_bytes: int) -> int:
    """One more than the largest whole element of a size that the view's ends enclose."""
    return argument.extent * argument.element_bytes // element_bytes


def _inside(argument: Argument, rows: Rows, element_bytes: int) -> bool:
    """Whether every row lies in what its argument covers."""
    if not len(rows.starts):
        return True
    if argument.buffer is None:
        return False
    if int(rows.starts.min()) < 0 or int(rows.starts.max()) + rows.width > _extent(argument, element_bytes):
        return False
    if argument.covered is None:
        return True
    if argument.element_bytes != element_bytes:
        return rows.width == 1 and bool(_covered(argument, rows.starts, element_bytes).all())
    return bool(rows_of(argument.covered, rows.width)[rows.starts].all())


def _covered(argument: Argument, elements: Array, element_bytes: int) -> Array:
    """Which elements of a size lie wholly in elements of the view; only said of those between the view's ends."""
    if argument.covered is None:
        return np.ones(len(elements), np.bool_)
    first = elements * element_bytes // argument.element_bytes
    last = (elements * element_bytes + element_bytes - 1) // argument.element_bytes
    whole = np.ones(len(elements), np.bool_)
    for step in range(max(1, element_bytes // argument.element_bytes)):
        whole &= argument.covered[np.clip(np.minimum(first + step, last), 0, argument.extent - 1)]
    return whole
