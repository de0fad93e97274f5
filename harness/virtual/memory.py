"""Loads, stores and atomics of one step of all programs, with every check on.

An access is first brought into rows (a start element and a common width): neighbours along the last axis become one row
each, anything else rows of width one.  Rows that stay inside what their argument covers are moved at once; the others
are taken apart lane by lane, recorded, and dropped, so that a stray access can never harm the process.
"""

from dataclasses import dataclass

import numpy as np

from harness.model.run import Access, Region
from harness.virtual.arguments import Argument, Buffer
from harness.virtual.elements import Array, bits_of, decode, encode, storage
from harness.virtual.events import Events, Place
from harness.virtual.pointers import Pointers
from harness.virtual.shadow import MANY, Clash, rows_of

MIN_ROW = 4


@dataclass(frozen=True, slots=True)
class Rows:
    """The active lanes of one access.

    `starts` holds the first element of each row, `programs` the number (id + 1) of the program that makes it, or `MANY`.  `picked`
    says which rows of the whole block these are (None: all); the row's columns are the first `width` of the block's.
    """

    starts: Array
    width: int
    programs: Array
    picked: Array | None
    block: tuple[int, ...]
    """The whole block as rows × columns, leading program axis included."""

    @property
    def ids(self) -> Array:
        """Program ids for reports; where all programs make the access, the first stands for them."""
        return np.maximum(self.programs, 1) - 1

    def take(self, values: Array, shape: tuple[int, ...]) -> Array:
        """These rows of a block of values."""
        whole = np.broadcast_to(values, shape).reshape(self.block)
        rows = whole if self.picked is None else whole[self.picked]
        return rows[:, : self.width]


class Memory:
    """The memory of one launch."""

    def __init__(self, arguments: list[Argument], events: Events) -> None:
        self.arguments = arguments
        self.events = events

    # --- the three accesses ---

    def load(
        self, place: str, pointers: Pointers, element: str, mask: Array | None, other: Array, numbers: Array
    ) -> Array:
        """The loaded block, as un-broadcast as its pointers and mask are; lanes that are masked off hold `other`.

        `numbers` are program numbers (id + 1) by the leading axis.
        """
        argument = self.arguments[pointers.argument]
        shape = _block_shape(pointers, mask)
        rows = _rows(pointers, mask, shape, numbers)
        where = (place, pointers.argument)
        whole = rows.picked is None and rows.width == rows.block[1]
        inside = self._inside(argument, rows, pointers.element_bytes)
        if not inside:
            if rows.width > 1:
                rows = _lanes(pointers, mask, shape, numbers)
            rows = self._drop_strays(where, argument, rows, pointers.element_bytes, Access.LOAD)
            whole = False
        raw_type = storage(element)
        if argument.buffer is None or not len(rows.starts):
            return np.broadcast_to(other, np.broadcast_shapes(shape, other.shape)).copy()
        raw = self._read(argument, rows, pointers.element_bytes, raw_type)
        self._check_initialised(where, argument, rows, raw)
        self._note_load(where, argument, rows, pointers.element_bytes)
        loaded = decode(raw, element)
        if whole:
            return loaded.reshape(shape)
        fill = np.broadcast_to(other, np.broadcast_shapes(shape, other.shape))
        if fill.shape != shape:  # `other` is larger than the block: compare lane by lane
            rows = _lanes(pointers, _everywhere(mask, fill.shape), fill.shape, numbers)
            return self._load_lanes(argument, rows, pointers, element, fill)
        result = fill.astype(loaded.dtype).reshape(rows.block)
        if rows.picked is None:
            result[:, : rows.width] = loaded
        else:
            result[rows.picked, : rows.width] = loaded
        return result.reshape(shape)

    def _load_lanes(self, argument: Argument, rows: Rows, pointers: Pointers, element: str, fill: Array) -> Array:
        safe = self._clamped(argument, rows, pointers.element_bytes)
        result = fill.copy().reshape(rows.block)
        result[safe.picked] = decode(self._read(argument, safe, pointers.element_bytes, storage(element)), element)
        return result.reshape(fill.shape)

    def store(
        self, place: str, pointers: Pointers, values: Array, element: str, mask: Array | None, numbers: Array
    ) -> None:
        """Store a block, for every program of `numbers`, even where pointers, values and mask are the same for all."""
        argument = self.arguments[pointers.argument]
        shape = _block_shape(pointers, mask, (len(numbers),) + (1,) * (values.ndim - 1), values.shape)
        rows = _rows(pointers, mask, shape, numbers)
        where = (place, pointers.argument)
        if not self._inside(argument, rows, pointers.element_bytes):
            if rows.width > 1:
                rows = _lanes(pointers, mask, shape, numbers)
            rows = self._drop_strays(where, argument, rows, pointers.element_bytes, Access.STORE)
        if argument.buffer is None or not len(rows.starts):
            return
        raw = encode(np.ascontiguousarray(rows.take(values, shape)), element)
        starts, width = self._granules(argument, rows, pointers.element_bytes)
        earlier, together, reads = argument.buffer.shadow.store(starts, width, rows.programs)
        differs_before = False
        if earlier is not None:
            differs_before = self._differs(argument, rows, pointers.element_bytes, raw, earlier, width)
        self._write(argument, rows, pointers.element_bytes, raw)
        if earlier is not None:
            self._note_overlap(where, argument, rows, starts, earlier, same_bytes=not differs_before)
        if together is not None:
            differs = self._differs(argument, rows, pointers.element_bytes, raw, together, width)
            self._note_overlap(where, argument, rows, starts, together, same_bytes=not differs)
        if reads is not None:
            elements = self._elements(argument, starts, reads)
            writers = rows.ids[reads.rows]
            readers = np.where(reads.others > 0, reads.others - 1, writers)
            self.events.dependence(where, elements, readers, writers)

    def atomic(
        self, place: str, pointers: Pointers, element: str, mask: Array | None, shape: tuple[int, ...], numbers: Array
    ) -> tuple[Rows, Array | None]:
        """The lanes of an atomic and a flat view of the argument's elements to work on; None where nothing is left.

        `Rows.starts` then index that view.
        """
        argument = self.arguments[pointers.argument]
        rows = _lanes(pointers, mask, _block_shape(pointers, mask, (len(numbers),) + (1,) * (len(shape) - 1), shape), numbers)
        if not self._inside(argument, rows, pointers.element_bytes):
            where = (place, pointers.argument)
            rows = self._drop_strays(where, argument, rows, pointers.element_bytes, Access.ATOMIC)
        if argument.buffer is None or not len(rows.starts):
            return rows, None
        flat = argument.buffer.as_type(storage(element))
        first = argument.first_byte // pointers.element_bytes
        return Rows(rows.starts + first, 1, rows.programs, rows.picked, rows.block), flat

    # --- bounds ---

    def _inside(self, argument: Argument, rows: Rows, element_bytes: int) -> bool:
        if not len(rows.starts):
            return True
        if argument.buffer is None:
            return False
        extent = argument.extent * argument.element_bytes // element_bytes
        if int(rows.starts.min()) < 0 or int(rows.starts.max()) + rows.width > extent:
            return False
        if argument.covered is None:
            return True
        same_size = argument.element_bytes == element_bytes
        return same_size and bool(rows_of(argument.covered, rows.width)[rows.starts].all())

    def _drop_strays(self, place: Place, argument: Argument, rows: Rows, element_bytes: int, access: Access) -> Rows:
        """Record the lanes that stray, and return those that may go on: inside the storage."""
        elements, programs = rows.starts, rows.ids
        if argument.buffer is None:
            self.events.stray(place, access, Region.NULL, elements, programs)
            return _subset(rows, np.zeros(len(elements), np.bool_))
        first = argument.first_byte + elements * element_bytes
        in_storage = (first >= 0) & (first + element_bytes <= argument.buffer.size_bytes)
        extent = argument.extent * argument.element_bytes // element_bytes
        in_view = (elements >= 0) & (elements < extent)
        covered = in_view
        if argument.covered is not None:
            own = np.clip(elements * element_bytes // argument.element_bytes, 0, argument.extent - 1)
            covered = in_view & argument.covered[own]
        for region, stray in (
            (Region.OUTSIDE_STORAGE, ~in_storage),
            (Region.OUTSIDE_VIEW, in_storage & ~in_view),
            (Region.IN_GAP, in_view & ~covered),
        ):
            if stray.any():
                self.events.stray(place, access, region, elements[stray], programs[stray])
        keep = in_storage if access is Access.LOAD else covered
        return _subset(rows, keep)

    def _clamped(self, argument: Argument, rows: Rows, element_bytes: int) -> Rows:
        if argument.buffer is None:
            return _subset(rows, np.zeros(len(rows.starts), np.bool_))
        first = argument.first_byte + rows.starts * element_bytes
        return _subset(rows, (first >= 0) & (first + element_bytes <= argument.buffer.size_bytes))

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
            rows_of(argument.buffer.bytes, rows.width * element_bytes)[starts] = np.ascontiguousarray(raw).view(np.uint8)

    # --- shadows ---

    def _granules(self, argument: Argument, rows: Rows, element_bytes: int) -> tuple[Array, int]:
        """The rows in cells of the buffer's shadow."""
        buffer = argument.buffer
        assert buffer is not None
        granule = min(buffer.shadow.granule, element_bytes)
        if argument.first_byte % granule:
            granule = 1
        if granule < buffer.shadow.granule:
            buffer.shadow.refine(granule)
        per_element = element_bytes // granule
        return rows.starts * per_element + argument.first_byte // granule, rows.width * per_element

    def _note_load(self, place: Place, argument: Argument, rows: Rows, element_bytes: int) -> None:
        buffer = argument.buffer
        if buffer is None or not buffer.track_readers:
            return
        starts, width = self._granules(argument, rows, element_bytes)
        clash = buffer.shadow.load(starts, width, rows.programs)
        if clash is not None:
            elements = self._elements(argument, starts, clash)
            self.events.dependence(place, elements, rows.ids[clash.rows], clash.others - 1)

    def _note_overlap(
        self, place: Place, argument: Argument, rows: Rows, starts: Array, clash: Clash, *, same_bytes: bool
    ) -> None:
        elements = self._elements(argument, starts, clash)
        self.events.overlap(place, elements, rows.ids[clash.rows], clash.others - 1, same_bytes=same_bytes)

    def _elements(self, argument: Argument, starts: Array, clash: Clash) -> Array:
        """Clashing cells as element indices of the argument."""
        buffer = argument.buffer
        assert buffer is not None
        first_byte = (starts[clash.rows] + clash.columns) * buffer.shadow.granule
        return (first_byte - argument.first_byte) // argument.element_bytes

    def _differs(
        self, argument: Argument, rows: Rows, element_bytes: int, raw: Array, clash: Clash, width: int
    ) -> bool:
        """Whether memory holds other bytes than `raw` at the clashing cells."""
        held = self._read(argument, rows, element_bytes, raw.dtype.type)
        columns = clash.columns * rows.width // width
        ours = bits_of(np.ascontiguousarray(raw))[clash.rows, columns]
        return bool((bits_of(np.ascontiguousarray(held))[clash.rows, columns] != ours).any())

    def _check_initialised(self, place: Place, argument: Argument, rows: Rows, raw: Array) -> None:
        buffer = argument.buffer
        if buffer is None or buffer.poison is None or buffer.poison.size != raw.dtype.itemsize:
            return
        fresh = bits_of(np.ascontiguousarray(raw)) == buffer.poison.pattern
        if fresh.any():
            row, column = np.nonzero(fresh)
            elements = rows.starts[row] + column
            self.events.uninitialised(place, elements, rows.ids[row])


def granule_of(buffer: Buffer, arguments: list[Argument]) -> int:
    """The cell size that fits every argument that lies in the buffer."""
    sizes = [argument.element_bytes for argument in arguments if argument.buffer is buffer]
    askew = any(argument.first_byte % min(sizes) for argument in arguments if argument.buffer is buffer)
    return 1 if askew else min(sizes)


# --- from blocks of pointers to rows ---


def _block_shape(pointers: Pointers, mask: Array | None, *more: tuple[int, ...]) -> tuple[int, ...]:
    shapes = [part.shape for part in pointers.parts]
    if mask is not None:
        shapes.append(mask.shape)
    return np.broadcast_shapes(*shapes, *more)


def _rows(pointers: Pointers, mask: Array | None, shape: tuple[int, ...], numbers: Array) -> Rows:
    """The access as rows along the last axis where its columns are neighbours, else lane by lane."""
    columns = shape[-1] if len(shape) > 1 else 1
    if columns < MIN_ROW:
        return _lanes(pointers, mask, shape, numbers)
    starts: Array | None = None
    neighbours = 0
    for part in pointers.parts:
        if part.shape[-1] == columns:
            if not (part[..., 1:] - part[..., :-1] == 1).all():
                return _lanes(pointers, mask, shape, numbers)
            neighbours += 1
        head = part[..., 0]
        starts = head if starts is None else starts + head
    if neighbours != 1 or starts is None:
        return _lanes(pointers, mask, shape, numbers)
    width, picked_mask = columns, None
    if mask is not None and not mask.all():
        split = _split_mask(np.broadcast_to(mask, np.broadcast_shapes(mask.shape, (1,) * (len(shape) - 1) + (columns,))))
        if split is None:
            return _lanes(pointers, mask, shape, numbers)
        width, picked_mask = split
    lead = shape[:-1]
    flat = np.broadcast_to(starts, lead).ravel()
    programs = _programs(numbers, lead)
    block = (len(flat), columns)
    if picked_mask is None:
        return Rows(flat, width, programs, None, block)
    picked = np.flatnonzero(np.broadcast_to(picked_mask, lead).ravel())
    return Rows(flat[picked], width, programs[picked], picked, block)


def _split_mask(mask: Array) -> tuple[int, Array] | None:
    """A mask that is (rows) × (the first columns) as that width and those rows; None where it is not."""
    used = mask.any(axis=tuple(range(mask.ndim - 1)))
    width = int(used.sum())
    if not used[:width].all():
        return None
    rows = mask[..., 0]
    if width and (mask[..., :width] != rows[..., None]).any():
        return None
    return max(width, 1), rows


def _lanes(pointers: Pointers, mask: Array | None, shape: tuple[int, ...], numbers: Array) -> Rows:
    flat = np.broadcast_to(pointers.index(), shape).reshape(-1)
    programs = _programs(numbers, shape)
    block = (len(flat), 1)
    if mask is None or mask.all():
        return Rows(flat, 1, programs, None, block)
    picked = np.flatnonzero(np.broadcast_to(mask, shape).reshape(-1))
    return Rows(flat[picked], 1, programs[picked], picked, block)


def _programs(numbers: Array, lead: tuple[int, ...]) -> Array:
    """Each row's program number; `MANY` where a block is the same for several programs."""
    column = (numbers if lead[0] == len(numbers) else np.array([MANY], np.int32)).reshape(-1, *(1,) * (len(lead) - 1))
    return np.broadcast_to(column, lead).ravel()


def _subset(rows: Rows, keep: Array) -> Rows:
    picked = np.flatnonzero(keep) if rows.picked is None else rows.picked[keep]
    return Rows(rows.starts[keep], rows.width, rows.programs[keep], picked, rows.block)


def _everywhere(mask: Array | None, shape: tuple[int, ...]) -> Array | None:
    return None if mask is None else np.broadcast_to(mask, shape)
