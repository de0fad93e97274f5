"""Blocks of pointers to rows: the active lanes of one access, with neighbours along the last axis joined."""

from dataclasses import dataclass

import numpy as np

from harness.engines.virtual.memory.pointers import Pointers
from harness.engines.virtual.numbers.elements import Array

MIN_ROW = 4
"""The shortest row that is worth joining."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The active lanes of one access.

    `starts` holds the first element of each row, `programs` the number (id + 1) of its program.  `selected` holds the
    indices of these rows in the whole block, or None for all rows.  A row covers the first `width` columns.
    """

    starts: Array
    width: int
    programs: Array
    selected: Array | None
    block: tuple[int, int]
    """The shape of the whole block as rows x columns, leading program axis included."""
    shared_by: Array
    """Numbers of all programs that make this same access; empty if pointers or mask differ between programs."""

    @property
    def ids(self) -> Array:
        """Program ids for reports.  The first program stands for all that share the access."""
        return self.programs - 1

    @property
    def is_whole(self) -> bool:
        """True if these are all lanes of the block."""
        return self.selected is None and self.width == self.block[1]

    def take(self, values: Array, shape: tuple[int, ...]) -> Array:
        """Return these rows of a block of values."""
        whole = _spread(values, shape).reshape(self.block)
        rows = whole if self.selected is None else whole[self.selected]
        return rows[:, : self.width]

    def put(self, block: Array, values: Array | int) -> None:
        """Write values into these rows of a block."""
        if self.selected is None:
            block[:, : self.width] = values
        else:
            block[self.selected, : self.width] = values

    def subset(self, keep: Array) -> "Rows":
        selected = np.flatnonzero(keep) if self.selected is None else self.selected[keep]
        return Rows(self.starts[keep], self.width, self.programs[keep], selected, self.block, self.shared_by)


def block_shape(pointers: Pointers, mask: Array | None, *more: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of an access, as un-broadcast as its pointers, its mask and the shapes in `more`."""
    shapes = [part.shape for part in pointers.parts]
    if mask is not None:
        shapes.append(mask.shape)
    return np.broadcast_shapes(*shapes, *more)


def as_rows(pointers: Pointers, mask: Array | None, shape: tuple[int, ...], numbers: Array) -> Rows:
    """Return the access as rows along the last axis if its columns are neighbours, else lane by lane."""
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
    return _rows(_RowAxes(shape[:-1], columns, numbers), starts, width, row_mask)


def as_lanes(pointers: Pointers, mask: Array | None, shape: tuple[int, ...], numbers: Array) -> Rows:
    """Return the access as rows of width one."""
    active = None if mask is None or mask.all() else mask
    return _rows(_RowAxes(shape, 1, numbers), pointers.index(), 1, active)


@dataclass(frozen=True, slots=True)
class _RowAxes:
    """The axes that count rows, the program axis first."""

    shape: tuple[int, ...]
    columns: int
    numbers: Array


def _rows(axes: _RowAxes, starts: Array, width: int, mask: Array | None) -> Rows:
    numbers, shape = axes.numbers, axes.shape
    # A program axis of length 1 means that all programs make the same access: the first one stands for them.
    is_shared = shape[0] != len(numbers)
    column = (numbers[:1] if is_shared else numbers).reshape(-1, *(1,) * (len(shape) - 1))
    flat = _spread(starts, shape)
    programs = _spread(column, shape)
    block = (len(flat), axes.columns)
    shared_by = numbers if is_shared else numbers[:0]
    if mask is None:
        return Rows(flat, width, programs, None, block, shared_by)
    selected = np.flatnonzero(np.broadcast_to(mask, shape))
    return Rows(flat[selected], width, programs[selected], selected, block, shared_by)


def _spread(values: Array, shape: tuple[int, ...]) -> Array:
    """Return one value per lane, flat."""
    return (values if values.shape == shape else np.broadcast_to(values, shape)).reshape(-1)


def _row_starts(pointers: Pointers, columns: int) -> Array | None:
    """Return the first element of each row; None if the columns of a row are not neighbours."""
    starts: Array | None = None
    ramps = 0
    for part in pointers.parts:
        if part.shape[-1] == columns:
            if not (part[..., 1:] - part[..., :-1] == 1).all():
                return None
            ramps += 1
        head = part[..., 0]
        starts = head if starts is None else starts + head
    # Two ramps along the last axis add up to a stride of two.
    return starts if ramps == 1 else None


def _split_mask(mask: Array) -> tuple[int, Array] | None:
    """Return a mask that is (rows) x (the first columns) as that width and those rows; None for any other mask."""
    used: Array = np.logical_or.reduce(mask.reshape(-1, mask.shape[-1]), axis=0)
    width = int(used.sum())
    if not used[:width].all():
        return None
    rows: Array = mask[..., 0]
    if width and (mask[..., :width] != rows[..., None]).any():
        return None
    return max(width, 1), rows
