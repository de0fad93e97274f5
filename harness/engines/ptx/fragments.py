"""Where the lanes of a warp hold the elements of a matrix: the fragments of `mma`, `ldmatrix` and `wgmma`.

A fragment is two index arrays, row and column, of shape (lanes, registers, elements of a register).
"""

from functools import cache

import numpy as np

from harness.engines.ptx.threads import WARP, Array

REGISTER_BITS = 32


def _grid(registers: int, elements: int) -> tuple[Array, Array, Array, Array]:
    """Return group, thread of the group, register and element, as arrays that broadcast together."""
    lanes = np.arange(WARP)[:, None, None]
    return lanes >> 2, lanes & 3, np.arange(registers)[None, :, None], np.arange(elements)[None, None, :]


@cache
def left_fragment(depth: int, bits: int) -> tuple[Array, Array]:
    """Return row and column of the elements of a 16 x `depth` left operand."""
    if bits == 64:
        return _left_doubles(depth)
    each = REGISTER_BITS // bits
    group, thread, register, element = _grid(16 * depth // (WARP * each), each)
    row = group + 8 * (register & 1)
    column = thread * each + element + 4 * each * (register >> 1)
    return np.broadcast_arrays(row, column)  # type: ignore[return-value]


def _left_doubles(depth: int) -> tuple[Array, Array]:
    group, thread, register, element = _grid(16 * depth // WARP, 1)
    row = group + 8 * (register & 1)
    column = thread + 4 * (register >> 1) + element
    return np.broadcast_arrays(row, column)  # type: ignore[return-value]


@cache
def right_fragment(depth: int, bits: int) -> tuple[Array, Array]:
    """Return row and column of the elements of a `depth` x 8 right operand."""
    each = max(1, REGISTER_BITS // bits)
    group, thread, register, element = _grid(8 * depth // (WARP * each), each)
    row = thread * each + element + 4 * each * register
    return np.broadcast_arrays(row, group)  # type: ignore[return-value]


@cache
def sum_fragment(rows: int, columns: int, bits: int) -> tuple[Array, Array]:
    """Return row and column of the elements of a sum of 8 or 16 rows, as a warp of `mma` or `wgmma` holds it."""
    each = 2 if bits == 16 else 1
    group, thread, register, element = _grid(rows * columns // (WARP * each), each)
    number = register * each + element
    if rows == 8:
        return np.broadcast_arrays(group, thread * 2 + number)  # type: ignore[return-value]
    row = group + 8 * (number >> 1 & 1)
    column = 8 * (number >> 2) + thread * 2 + (number & 1)
    return np.broadcast_arrays(row, column)  # type: ignore[return-value]
