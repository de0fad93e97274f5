"""Elements of 4 and 6 bits as `tcgen05` reads them from memory: packed, or padded to 16 bytes for 16 elements."""

from functools import cache

import numpy as np

from harness.engines.ptx.threads import Array

_BITS = {"e2m1": 4, "e2m3": 6, "e3m2": 6}
_CHUNK = 16


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
