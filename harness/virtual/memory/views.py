"""An argument seen in elements of an access's size: what it covers, its bytes, its cells in the shadow."""

from dataclasses import dataclass

import numpy as np

from harness.virtual.memory.arguments import Argument, Buffer
from harness.virtual.memory.rows import Rows
from harness.virtual.memory.shadow import Clash, rows_of
from harness.virtual.numbers.elements import Array


@dataclass(frozen=True, slots=True)
class View:
    """A pointer argument that is not null, in elements of `size` bytes counted from its first byte."""

    argument: Argument
    buffer: Buffer
    size: int

    # --- what it covers ---

    @property
    def extent(self) -> int:
        """How many whole elements the ends of the argument's tensor enclose."""
        return self.argument.extent * self.argument.element_bytes // self.size

    def in_own(self, elements: Array) -> Array:
        """The same places counted in the argument's own elements."""
        return elements * self.size // self.argument.element_bytes

    def inside(self, rows: Rows) -> bool:
        """Whether every row lies in what the argument covers."""
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
        """Which elements lie wholly in elements of the tensor; only said of those between its ends."""
        whole = np.ones(len(elements), np.bool_)
        if self.argument.covered is None:
            return whole
        own = self.argument.element_bytes
        first, last = elements * self.size // own, (elements * self.size + self.size - 1) // own
        for step in range(max(1, self.size // own)):
            whole &= self.argument.covered[np.clip(np.minimum(first + step, last), 0, self.argument.extent - 1)]
        return whole

    def in_storage(self, elements: Array) -> Array:
        """Which elements lie wholly in the storage."""
        first = self.argument.first_byte + elements * self.size
        return (first >= 0) & (first + self.size <= self.buffer.size_bytes)

    # --- its bytes ---

    def read(self, rows: Rows, dtype: type[np.generic]) -> Array:
        """The elements of rows that lie in the storage, one line each."""
        if self.argument.first_byte % self.size == 0:
            starts = rows.starts + self.argument.first_byte // self.size
            flat = self.buffer.as_type(dtype)
            return flat[starts][:, None] if rows.width == 1 else rows_of(flat, rows.width)[starts]
        starts = rows.starts * self.size + self.argument.first_byte
        return rows_of(self.buffer.bytes, rows.width * self.size)[starts].view(dtype)

    def write(self, rows: Rows, raw: Array) -> None:
        """Overwrite the elements of rows that lie in the storage; of several to one element the last stays."""
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

    def holds(self, rows: Rows, raw: Array, clash: Clash) -> bool:
        """Whether memory holds the bytes of `raw` in all clashing cells."""
        held = np.ascontiguousarray(self.read(rows, raw.dtype.type))
        cells = (len(raw), -1, self.buffer.shadow.granule)
        there = held.view(np.uint8).reshape(cells)[clash.rows, clash.columns]
        return bool((there == raw.view(np.uint8).reshape(cells)[clash.rows, clash.columns]).all())

    # --- its cells in the shadow ---

    def cells(self, rows: Rows) -> tuple[Array, int]:
        """The rows' first cells and their width in cells; the shadow is refined where the rows do not fit."""
        shadow = self.buffer.shadow
        granule = min(shadow.granule, self.size)
        if granule < shadow.granule:
            shadow.refine(granule)
        per_element = self.size // granule
        return rows.starts * per_element + self.argument.first_byte // granule, rows.width * per_element


def elements_at(argument: Argument, granule: int, starts: Array, clash: Clash) -> Array:
    """Clashing cells of an access that began at the cells `starts`, as the argument's own elements."""
    first_byte = (starts[clash.rows] + clash.columns) * granule
    return (first_byte - argument.first_byte) // argument.element_bytes


def granule_of(buffer: Buffer, arguments: list[Argument]) -> int:
    """The cell size that fits every argument that lies in the buffer."""
    sizes = [argument.element_bytes for argument in arguments if argument.buffer is buffer]
    askew = any(argument.first_byte % min(sizes) for argument in arguments if argument.buffer is buffer)
    return 1 if askew else min(sizes)
