"""From blocks of pointers to rows: the active lanes of one access, neighbours along the last axis taken together."""

from dataclasses import dataclass

import numpy as np

from harness.virtual.memory.pointers import Pointers
from harness.virtual.numbers.elements import Array

MIN_ROW = 4


@dataclass(frozen=True, slots=True)
class Rows:
    """The active lanes of one access.

    `starts` holds the first element of each row, `programs` the number (id + 1) of the program that makes it.  `picked`
    says which rows of the whole block these are (None: all); the row's columns are the first `width` of the block's.
    """

    starts: Array
    width: int
    programs: Array
    picked: Array | None
    block: tuple[int, int]
    """The whole block as rows x columns, leading program axis included."""
    alike: Array
    """Numbers of all programs that make this very access, where pointers and mask are the same for all; else empty."""

    @property
    def ids(self) -> Array:
        """Program ids for reports; where all programs make the access, the first stands for them."""
        return self.programs - 1

    @property
    def whole(self) -> bool:
        """Whether these are all lanes of the block."""
        return self.picked is None and self.width == self.block[1]

    def take(self, values: Array, shape: tuple[int, ...]) -> Array:
        """These rows of a block of values."""
        whole = _spread(values, shape).reshape(self.block)
        rows = whole if self.picked is None else whole[self.picked]
        return rows[:, : self.width]

    def put(self, block: Array, values: Array | int) -> None:
        """Write values into these rows of a block."""
        if self.picked is None:
            block[:, : self.width] = values
        else:
            block[self.picked, : self.width] = values

    def subset(self, keep: Array) -> "Rows":
        """Only the rows to keep."""
        picked = np.flatnonzero(keep) if self.picked is None else self.picked[keep]
        return Rows(self.starts[keep], self.width, self.programs[keep], picked, self.block, self.alike)


def block_shape(pointers: Pointers, mask: Array | None, *more: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an access, as un-broadcast as its pointers, its mask and what else takes part."""
    shapes = [part.shape for part in pointers.parts]
    if mask is not None:
        shapes.append(mask.shape)
    return np.broadcast_shapes(*shapes, *more)


def as_rows(pointers: Pointers, mask: Array | None, shape: tuple[int, ...], numbers: Array) -> Rows:
    """The access as rows along the last axis where its columns are neighbours, else lane by lane."""
    columns = shape[-1] if len(shape) > 1 else 1
    starts = _row_starts(pointers, columns) if columns >= MIN_ROW else None
    if starts is None:
        return as_lanes(pointers, mask, shape, numbers)
    width, row_mask = columns, None
    if mask is not None and not mask.all():
        split = _split_mask(np.broadcast_to(mask, (*mask.shape[:-1], columns)))
        if split is None:
            return as_lanes(pointers, mask, shape, numbers)
        width, row_mask = split
    return _rows(_Lead(shape[:-1], columns, numbers), starts, width, row_mask)


def as_lanes(pointers: Pointers, mask: Array | None, shape: tuple[int, ...], numbers: Array) -> Rows:
    """The access as rows of width one."""
    every = None if mask is None or mask.all() else mask
    return _rows(_Lead(shape, 1, numbers), pointers.index(), 1, every)


@dataclass(frozen=True, slots=True)
class _Lead:
    """The axes along which rows are told apart, the program axis first."""

    shape: tuple[int, ...]
    columns: int
    numbers: Array


def _rows(lead: _Lead, starts: Array, width: int, mask: Array | None) -> Rows:
    numbers, shape = lead.numbers, lead.shape
    alike = shape[0] != len(numbers)
    column = (numbers[:1] if alike else numbers).reshape(-1, *(1,) * (len(shape) - 1))
    flat = _spread(starts, shape)
    programs = _spread(column, shape)
    block = (len(flat), lead.columns)
    everybody = numbers if alike else numbers[:0]
    if mask is None:
        return Rows(flat, width, programs, None, block, everybody)
    picked = np.flatnonzero(np.broadcast_to(mask, shape))
    return Rows(flat[picked], width, programs[picked], picked, block, everybody)


def _spread(values: Array, shape: tuple[int, ...]) -> Array:
    """One value a lane."""
    return (values if values.shape == shape else np.broadcast_to(values, shape)).reshape(-1)


def _row_starts(pointers: Pointers, columns: int) -> Array | None:
    """The first element of each row; None where a row's columns are not neighbours."""
    starts: Array | None = None
    ramps = 0
    for part in pointers.parts:
        if part.shape[-1] == columns:
            if not (part[..., 1:] - part[..., :-1] == 1).all():
                return None
            ramps += 1
        head = part[..., 0]
        starts = head if starts is None else starts + head
    return starts if ramps == 1 else None


def _split_mask(mask: Array) -> tuple[int, Array] | None:
    """A mask that is (rows) x (the first columns) as that width and those rows; None where it is not."""
    used: Array = np.logical_or.reduce(mask.reshape(-1, mask.shape[-1]), axis=0)
    width = int(used.sum())
    if not used[:width].all():
        return None
    rows: Array = mask[..., 0]
    if width and (mask[..., :width] != rows[..., None]).any():
        return None
    return max(width, 1), rows
