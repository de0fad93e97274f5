"""Cells of a tensor as a coarse map that is small enough to leave the process."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.model.picture import Spread, block_of, table_of

Array = NDArray[Any]


def share(shape: tuple[int, ...], cells: Array) -> Spread:
    """Which share of each block the cells make; `cells` are distinct places in the tensor's flattened order."""
    down, across = _blocks(shape, cells)
    counts = np.zeros(_extent(shape))
    np.add.at(counts, (down, across), 1)
    return _spread(shape, counts / _sizes(shape), 0.0)


def largest(shape: tuple[int, ...], amounts: Array) -> Spread:
    """The largest amount of each block, one for each element in flattened order; only those near or above 1."""
    down, across = _blocks(shape, np.arange(amounts.size))
    found = np.zeros(_extent(shape))
    np.maximum.at(found, (down, across), amounts.reshape(-1))
    return _spread(shape, found, min(1.0, float(found.max(initial=0.0)) / 2))


def _blocks(shape: tuple[int, ...], cells: Array) -> tuple[Array, Array]:
    rows, columns = np.divmod(cells, table_of(shape)[1])
    height, width = block_of(shape)
    return rows // height, columns // width


def _extent(shape: tuple[int, ...]) -> tuple[int, int]:
    (rows, columns), (height, width) = table_of(shape), block_of(shape)
    return -(-rows // height), -(-columns // width)


def _sizes(shape: tuple[int, ...]) -> Array:
    """How many cells each block has: fewer at the far ends."""
    (rows, columns), (height, width) = table_of(shape), block_of(shape)
    down, across = _extent(shape)
    heights = np.minimum(height, rows - height * np.arange(down))
    widths = np.minimum(width, columns - width * np.arange(across))
    return np.outer(heights, widths)


def _spread(shape: tuple[int, ...], amounts: Array, least: float) -> Spread:
    down, across = np.nonzero((amounts >= least) & (amounts > 0))
    marks = zip(down.tolist(), across.tolist(), amounts[down, across].tolist(), strict=True)
    return Spread(shape=shape, marks=tuple((row, column, float(f"{amount:.3g}")) for row, column, amount in marks))
