"""Elements of 4, 6 and 8 bits as tensor cores read them from memory, and the scales of block-scaled products.

Elements of 4 and 6 bits are packed, or padded: 16 elements fill the first bytes of 16.
"""

from functools import cache

import numpy as np

from harness.engines.ptx.threads import Array
from harness.engines.virtual.numbers import float8
from harness.errors import CannotExecute

_BITS = {"e2m1": 4, "e2m3": 6, "e3m2": 6}
_CHUNK = 16
_NO_SCALE = 0xFF


@cache
def _values(kind: str) -> Array:
    """Return the number of each code of a type without infinities."""
    exponent_bits, fraction_bits = int(kind[1]), int(kind[3])
    code = np.arange(1 << (1 + exponent_bits + fraction_bits))
    fraction = (code & ((1 << fraction_bits) - 1)) / (1 << fraction_bits)
    exponent = code >> fraction_bits & ((1 << exponent_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    size = np.where(exponent > 0, np.ldexp(1 + fraction, exponent - bias), np.ldexp(fraction, 1 - bias))
    return np.where(code >> (exponent_bits + fraction_bits), -size, size)


def is_narrow(kind: str) -> bool:
    return kind in _BITS


def unpacked(raw: Array, kind: str) -> Array:
    """Return the numbers of packed bytes of 4-bit elements, the lower half first; the last axis doubles."""
    values = _values(kind)
    return np.stack((values[raw & 0xF], values[raw >> 4]), axis=-1).reshape(*raw.shape[:-1], -1)


def unpadded(raw: Array, kind: str) -> Array:
    """Return the numbers of padded bytes, as many as there are bytes along the last axis."""
    bits = _BITS[kind]
    chunks = np.ascontiguousarray(raw).reshape(*raw.shape[:-1], -1, _CHUNK)[..., : _CHUNK * bits // 8]
    single = np.unpackbits(chunks, axis=-1, bitorder="little").reshape(*chunks.shape[:-1], _CHUNK, bits)
    codes = (single.astype(np.int64) << np.arange(bits)).sum(axis=-1)
    return _values(kind)[codes].reshape(raw.shape)


def scales(raw: Array, kind: str) -> Array:
    """Return the numbers of scales: powers of two (`ue8m0`), or 8-bit floats without a sign (`ue4m3`).

    Raises:
        CannotExecute: the type is not known.
    """
    match kind:
        case "ue8m0":
            return np.where(raw == _NO_SCALE, np.nan, np.ldexp(1.0, raw.astype(np.int64) - 127))
        case "ue4m3":
            return float8.decode(raw & 0x7F, "f8E4M3FN").astype(np.float64)
        case _:
            raise CannotExecute(f"scales of {kind}")
