"""Matrix descriptors: where the elements of an operand lie in shared memory, and the swizzles of their rows.

A swizzle permutes the 16-byte chunks of a row by the number of the row: some bits of the address are combined with
higher ones.
"""

from dataclasses import dataclass

import numpy as np

from harness.engines.ptx.threads import Array
from harness.errors import CannotExecute

CHUNK_BYTES = 16
ROWS = 8
"""The rows of a block that a swizzle permutes."""
_HOPPER_SWIZZLES = np.array([0, 128, 64, 32])
_BLACKWELL_SWIZZLES = {0: 0, 2: 128, 4: 64, 6: 32}


@dataclass(frozen=True, slots=True)
class MatrixPlaces:
    """The descriptors of one operand, one for each warpgroup: all in bytes."""

    start: Array
    leading: Array
    """From one block of columns to the next."""
    stride: Array
    """From one block of rows to the next."""
    swizzle: int
    """The bytes of a row that a swizzle permutes; 0 for none."""

    @classmethod
    def hopper(cls, descriptors: Array) -> "MatrixPlaces":
        """Read the descriptors of `wgmma`; all must have the same swizzle."""
        bits = descriptors.astype(np.uint64)
        mode = int(bits.flat[0] >> np.uint64(62)) & 3
        return cls(
            start=_field(bits, 0),
            leading=_field(bits, 16),
            stride=_field(bits, 32),
            swizzle=int(_HOPPER_SWIZZLES[mode]),
        )

    @classmethod
    def blackwell(cls, descriptors: Array) -> "MatrixPlaces":
        """Read the descriptors of `tcgen05`; all must have the same swizzle.

        Raises:
            CannotExecute: the descriptors have different swizzles, or one that is not known.
        """
        bits = descriptors.astype(np.uint64)
        modes = bits >> np.uint64(61)
        mode, base = int(modes.flat[0]), bits >> np.uint64(49) & np.uint64(15)
        # The pattern of a swizzle begins at an aligned address, unless a base offset says otherwise.
        if (modes != mode).any() or mode not in _BLACKWELL_SWIZZLES or (mode and base.any()):
            raise CannotExecute(f"the matrix descriptor {int(bits.flat[0]):#018x}")
        return cls(
            start=_field(bits, 0),
            leading=_field(bits, 16),
            stride=_field(bits, 32),
            swizzle=_BLACKWELL_SWIZZLES[mode],
        )

    def addresses(self, rows: int, depth: int, size_bytes: int, *, is_depth_inner: bool) -> Array:
        """Return the shared-memory address of each element, with the axes descriptor, row, depth.

        Args:
            rows: the extent along M or N.
            depth: the extent along K.
            size_bytes: the bytes of an element.
            is_depth_inner: neighbours along K are neighbours in memory; otherwise those along M or N are.
        """
        row, column = np.arange(rows)[:, None], np.arange(depth)[None, :]
        inner, outer = (column, row) if is_depth_inner else (row, column)
        inner_bytes = inner * size_bytes
        start, leading, stride = (part[:, None, None] for part in (self.start, self.leading, self.stride))
        if not self.swizzle:
            across, along = (leading, stride) if is_depth_inner else (stride, leading)
            chunk = inner_bytes // CHUNK_BYTES
            return (
                start + chunk * across + inner_bytes % CHUNK_BYTES + outer // ROWS * along + outer % ROWS * CHUNK_BYTES
            )
        block = inner_bytes // self.swizzle
        offset = inner_bytes % self.swizzle + outer // ROWS * stride + outer % ROWS * self.swizzle
        return swizzled(start + block * leading + offset, self.swizzle)


def _field(bits: Array, first: int) -> Array:
    return (((bits >> np.uint64(first)) & np.uint64(0x3FFF)) << np.uint64(4)).astype(np.int64)


def swizzled(addresses: Array, span_bytes: int) -> Array:
    """Return addresses in memory from those of an unpermuted tile; `span_bytes` is 0 for no swizzle."""
    if not span_bytes:
        return addresses
    mask = span_bytes // CHUNK_BYTES - 1
    return addresses ^ ((addresses >> 7 & mask) << 4)
