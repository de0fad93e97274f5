"""Loads, stores and atomics of exact values, at the same lanes as those of the real ones.

Every check has been made by the access to the real values.  Here stray lanes are dropped in silence.
"""

import numpy as np
import torch

from harness.engines.virtual.memory.accesses import BlockAccess, Memory, rows_of_access
from harness.engines.virtual.memory.arguments import Argument
from harness.engines.virtual.memory.events import EventCollector
from harness.engines.virtual.memory.rows import Rows, as_lanes, block_shape
from harness.engines.virtual.memory.views import View
from harness.engines.virtual.numbers.elements import Array
from harness.errors import CannotExecute
from harness.execution.exact_memory import ExactElements, ExactMemory
from harness.model.run import Access

OVERWRITTEN = "memory that was overwritten by something else than floating-point numbers"


class ExactAccesses(Memory):
    """The exact values of the arguments of one launch, as elements of one floating-point type."""

    def __init__(self, arguments: list[Argument], exact: ExactMemory, dtype: torch.dtype) -> None:
        super().__init__(arguments, EventCollector())
        self._exact = exact
        self._dtype = dtype
        self._updated: list[tuple[ExactElements, Array]] = []

    def carrier(self, element: str) -> type[np.generic]:
        del element
        return np.float64

    def loaded(self, access: BlockAccess, view: View, rows: Rows) -> Array:
        """Return the exact values of rows that lie in the storage."""
        del access
        values, is_overwritten = self._elements(view).read(_indices(view, rows))
        if is_overwritten:
            self._exact.doubt(OVERWRITTEN)
        return values

    def store(self, access: BlockAccess, values: Array) -> None:
        """Store exact values; the real ones have been stored."""
        programs = (len(access.numbers),) + (1,) * (values.ndim - 1)
        shape = block_shape(access.pointers, access.mask, programs, values.shape)
        view = self.view_of(access)
        rows = self.drop_out_of_bounds(access, view, rows_of_access(access, view, shape), shape, Access.STORE)
        if view is not None and len(rows.starts):
            self._elements(view).write(_indices(view, rows), rows.take(values, shape))

    def atomic(self, access: BlockAccess) -> tuple[Rows, Array | None]:
        """Return the lanes of an atomic and the exact values to update, before the real ones are updated."""
        shape = (len(access.numbers), *access.kind.shape)
        view = self.view_of(access)
        rows = as_lanes(access.pointers, access.mask, shape, access.numbers)
        rows = self.drop_out_of_bounds(access, view, rows, shape, Access.ATOMIC)
        if view is None or not len(rows.starts):
            return rows, None
        elements, indices = self._elements(view), _indices(view, rows)[:, 0]
        elements.values[indices], is_overwritten = elements.read(indices)
        if is_overwritten:
            self._exact.doubt(OVERWRITTEN)
        self._updated.append((elements, indices))
        return Rows(indices, 1, rows.programs, rows.selected, rows.block, rows.shared_by), elements.values

    def settle(self) -> None:
        """Keep the real bits of what atomics updated; called after the real values have been updated."""
        for elements, indices in self._updated:
            elements.bits[indices] = elements.raw[indices]
        self._updated.clear()

    def _elements(self, view: View) -> ExactElements:
        return self._exact.elements(view.buffer.address, view.buffer.size_bytes, self._dtype)


def _indices(view: View, rows: Rows) -> Array:
    """Return the element numbers of rows in their storage."""
    if view.argument.first_byte % view.size:
        raise CannotExecute("exact values at an address that is no multiple of the element's size")
    first = rows.starts + view.argument.first_byte // view.size
    return first[:, None] + np.arange(rows.width)
