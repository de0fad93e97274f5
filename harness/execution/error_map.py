"""Coarse maps of cells or errors of a tensor, small enough to be part of a run."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.model.picture import Spread, block_of, table_of

Array = NDArray[Any]


def share(shape: tuple[int, ...], cells: Array) -> Spread:
    """Return the share of each block that these cells make; `cells` are distinct flat indices."""
    down, across = _blocks(shape, cells)
    counts = np.zeros(_block_counts(shape))
    np.add.at(counts, (down, across), 1)
    return _spread(shape, counts / _sizes(shape), 0.0)


def largest(shape: tuple[int, ...], amounts: Array) -> Spread:
    """Return the largest amount in each block, of blocks near or above 1.

    Args:
        shape: the tensor's shape.
        amounts: one amount for each element, in flat order.
    """
    down, across = _blocks(shape, np.arange(amounts.size))
    amounts_of_blocks = np.zeros(_block_counts(shape))
    np.maximum.at(amounts_of_blocks, (down, across), amounts.reshape(-1))
    return _spread(shape, amounts_of_blocks, min(1.0, float(amounts_of_blocks.max(initial=0.0)) / 2))


def _blocks(shape: tuple[int, ...], cells: Array) -> tuple[Array, Array]:
    rows, columns = np.divmod(cells, table_of(shape)[1])
    height, width = block_of(shape)
    return rows // height, columns // width


def _block_counts(shape: tuple[int, ...]) -> tuple[int, int]:
    (rows, columns), (height, width) = table_of(shape), block_of(shape)
    return -(-rows // height), -(-columns // width)


def _sizes(shape: tuple[int, ...]) -> Array:
    """Return the number of cells of each block; blocks at the far ends have fewer."""
    (rows, columns), (height, width) = table_of(shape), block_of(shape)
    down, across = _block_counts(shape)
    heights = np.minimum(height, rows - height * np.arange(down))
    widths = np.minimum(width, columns - width * np.arange(across))
    return np.outer(heights, widths)


def _spread(shape: tuple[int, ...], amounts: Array, least: float) -> Spread:
    down, across = np.nonzero((amounts >= least) & (amounts > 0))
    marks = zip(down.tolist(), across.tolist(), amounts[down, across].tolist(), strict=True)
    return Spread(shape=shape, marks=tuple((row, column, float(f"{amount:.3g}")) for row, column, amount in marks))
