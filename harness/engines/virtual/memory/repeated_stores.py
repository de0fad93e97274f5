"""The cells of one buffer that several programs store, and which of them store the same bytes.

A program that stores a cell and reads it afterwards gets its own bytes, also after others have stored there, as long as
all of them store the same.  Only cells with stores of two programs are kept, so a launch without them costs nothing.
"""

import numpy as np

from harness.engines.virtual.numbers.elements import Array

MOST_STORES = 1 << 20
"""Stores after which no more are kept, to bound memory: a read then counts as one of other bytes."""


class RepeatedStores:
    """The programs that stored each such cell, and the cells to which two of them stored different bytes."""

    def __init__(self) -> None:
        self._cells = np.zeros(0, np.int64)
        self._programs = np.zeros(0, np.int64)
        self._differing = np.zeros(0, np.int64)

    def add(self, cells: Array, programs: Array, other_programs: Array) -> None:
        """Record that two programs stored each of these cells."""
        if len(self._cells) < MOST_STORES:
            self._cells = np.concatenate([self._cells, cells, cells])
            self._programs = np.concatenate([self._programs, programs, other_programs])

    def differ(self, cells: Array) -> None:
        """Record cells to which two programs stored different bytes."""
        self._differing = np.union1d(self._differing, cells)

    def own(self, cells: Array, programs: Array) -> Array:
        """Return a mask: true where the program has stored the cell, and all have stored the same bytes."""
        if not len(self._cells):
            return np.zeros(cells.shape, np.bool_)
        known = _keys(self._cells, self._programs)
        return np.isin(_keys(cells, programs), known) & ~np.isin(cells, self._differing)

    def refine(self, factor: int) -> None:
        """Split each cell into `factor` cells."""
        parts = np.arange(factor)
        self._cells = (self._cells[:, None] * factor + parts).reshape(-1)
        self._programs = np.repeat(self._programs, factor)
        self._differing = (self._differing[:, None] * factor + parts).reshape(-1)


def _keys(cells: Array, programs: Array) -> Array:
    return cells.astype(np.int64) << 32 | programs
