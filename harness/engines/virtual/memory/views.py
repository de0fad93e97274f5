"""A pointer argument in elements of an access's size: its extent, its bytes, its cells in shadow memory."""

from dataclasses import dataclass

import numpy as np

from harness.engines.virtual.memory.arguments import Argument, Buffer
from harness.engines.virtual.memory.rows import Rows
from harness.engines.virtual.memory.shadow import Clash, rows_of
from harness.engines.virtual.numbers.elements import Array


@dataclass(frozen=True, slots=True)
class View:
    """A pointer argument that is not null, in elements of `size` bytes counted from its first byte."""

    argument: Argument
    buffer: Buffer
    size: int

    # --- extent ---

    @property
    def extent(self) -> int:
        """The number of whole elements between the ends of the argument's tensor."""
        return self.argument.extent * self.argument.element_bytes // self.size

    def in_own_elements(self, elements: Array) -> Array:
        """Return the same positions, counted in the argument's own elements."""
        return elements * self.size // self.argument.element_bytes

    def contains(self, rows: Rows) -> bool:
        """Return True if every row lies in elements of the argument's tensor."""
        if not len(rows.starts):
            return True
        low, high = (rows.starts.min(), rows.starts.max()) if len(rows.starts) > 1 else (rows.starts[0], rows.starts[0])
        if int(low) < 0 or int(high) + rows.width > self.extent:
            return False
        if self.argument.covered is None:
            return True
        if self.argument.element_bytes != self.size:
            return rows.width == 1 and bool(self.covers(rows.starts).all())
        return bool(rows_of(self.argument.covered, rows.width)[rows.starts].all())

    def covers(self, elements: Array) -> Array:
        """Return a mask of the elements that lie wholly in elements of the tensor.

        The mask is meaningful only for elements between the tensor's ends.
        """
        whole = np.ones(len(elements), np.bool_)
        if self.argument.covered is None:
            return whole
        own = self.argument.element_bytes
        first, last = elements * self.size // own, (elements * self.size + self.size - 1) // own
        for step in range(max(1, self.size // own)):
            whole &= self.argument.covered[np.clip(np.minimum(first + step, last), 0, self.argument.extent - 1)]
        return whole

    def in_storage(self, elements: Array) -> Array:
        """Return a mask of the elements that lie wholly in the storage."""
        first = self.argument.first_byte + elements * self.size
        return (first >= 0) & (first + self.size <= self.buffer.size_bytes)

    # --- bytes ---

    def read(self, rows: Rows, dtype: type[np.generic]) -> Array:
        """Return the elements of rows that lie in the storage, one line per row."""
        if self.argument.first_byte % self.size == 0:
            starts = rows.starts + self.argument.first_byte // self.size
            flat = self.buffer.as_type(dtype)
            return flat[starts][:, None] if rows.width == 1 else rows_of(flat, rows.width)[starts]
        starts = rows.starts * self.size + self.argument.first_byte
        return rows_of(self.buffer.bytes, rows.width * self.size)[starts].view(dtype)

    def write(self, rows: Rows, raw: Array) -> None:
        """Overwrite the elements of rows that lie in the storage.  The last of several writes to an element stays."""
        if self.argument.first_byte % self.size == 0:
            starts = rows.starts + self.argument.first_byte // self.size
            flat = self.buffer.as_type(raw.dtype.type)
            if rows.width == 1:
                flat[starts] = raw[:, 0]
            else:
                rows_of(flat, rows.width)[starts] = raw
        else:
            starts = rows.starts * self.size + self.argument.first_byte
            rows_of(self.buffer.bytes, rows.width * self.size)[starts] = raw.view(np.uint8)

    def holds(self, rows: Rows, raw: Array, clash: Clash) -> Array:
        """Return a mask of the clashing cells in which memory holds the bytes of `raw`."""
        held = np.ascontiguousarray(self.read(rows, raw.dtype.type))
        cells = (len(raw), -1, self.buffer.shadow.cell_bytes)
        there = held.view(np.uint8).reshape(cells)[clash.rows, clash.columns]
        return (there == raw.view(np.uint8).reshape(cells)[clash.rows, clash.columns]).all(axis=-1)

    # --- cells in shadow memory ---

    def cells(self, rows: Rows) -> tuple[Array, int]:
        """Return the rows' first cells and their width in cells; refine the shadow if elements are smaller."""
        shadow = self.buffer.shadow
        cell_bytes = min(shadow.cell_bytes, self.size)
        if cell_bytes < shadow.cell_bytes:
            shadow.refine(cell_bytes)
        per_element = self.size // cell_bytes
        return rows.starts * per_element + self.argument.first_byte // cell_bytes, rows.width * per_element


def elements_at(argument: Argument, cell_bytes: int, starts: Array, clash: Clash) -> Array:
    """Return the clashing cells of an access that began at the cells `starts`, as the argument's own elements."""
    first_byte = (starts[clash.rows] + clash.columns) * cell_bytes
    return (first_byte - argument.first_byte) // argument.element_bytes


def cell_bytes_of(buffer: Buffer, arguments: list[Argument]) -> int:
    """Return the cell size that fits every argument that lies in the buffer."""
    sizes = [argument.element_bytes for argument in arguments if argument.buffer is buffer]
    is_unaligned = any(argument.first_byte % min(sizes) for argument in arguments if argument.buffer is buffer)
    return 1 if is_unaligned else min(sizes)
