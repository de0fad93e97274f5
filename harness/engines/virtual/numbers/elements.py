"""TTIR's element types in NumPy: carriers to compute in, storage types for memory, and rounding between them.

NumPy has no bfloat16 and computes float16 slowly.  So both are carried as float32 and rounded after every operation
that makes a new value.  float32 has more than twice their precision plus two bits.  So rounding twice changes nothing
for `+ - * / sqrt`.  The 8-bit types are carried likewise; `float8` knows their bytes.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.engines.virtual.numbers import float8
from harness.engines.virtual.numbers.float16 import from_half, to_half
from harness.errors import CannotExecute

Array = NDArray[Any]

_CARRIERS: dict[str, type[Any]] = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "index": np.int64,
    "f16": np.float32,
    "bf16": np.float32,
    "f32": np.float32,
    "f64": np.float64,
    **dict.fromkeys(float8.FORMATS, np.float32),
}
_STORAGE: dict[str, type[Any]] = {
    "f16": np.float16,
    "bf16": np.uint16,
    "i1": np.uint8,
    **dict.fromkeys(float8.FORMATS, np.uint8),
}
_UNSIGNED: dict[int, type[Any]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
NARROW_FLOATS = frozenset({"f16", "bf16", *float8.FORMATS})
SMALLEST_NORMAL = np.float32(2.0**-126)


def carrier(element: str) -> type[Any]:
    """Return the NumPy type in which values of a TTIR element type are computed.

    Raises:
        CannotExecute: the element type is unknown.
    """
    if element not in _CARRIERS:
        raise CannotExecute(f"element type {element}")
    return _CARRIERS[element]


def storage(element: str) -> type[Any]:
    """Return the NumPy type with the element's bytes in memory; bfloat16 is stored as 16 bits."""
    return _STORAGE.get(element) or carrier(element)


def is_float(element: str) -> bool:
    return element.startswith(("f", "bf"))


def unsigned(values: Array) -> Array:
    """Return the same bits as unsigned integers; booleans stay booleans."""
    if values.dtype == np.bool_:
        return values
    return values.view(_UNSIGNED[values.dtype.itemsize])


def bits_of(values: Array) -> Array:
    """Return the same bytes as unsigned integers, for comparing bit for bit."""
    return values.view(_UNSIGNED[values.dtype.itemsize])


def rounded(values: Array, element: str) -> Array:
    """Round carried values to the precision of `element` (to nearest, ties to even)."""
    if element == "bf16":
        return _to_bfloat16_bits(values).astype(np.uint32).__lshift__(16).view(np.float32)
    if element == "f16":
        return from_half(to_half(values))
    if element in float8.FORMATS:
        return float8.rounded(values, element)
    return values


def flushed(values: Array) -> Array:
    """Replace subnormal float32 numbers by zeros of their sign, as `.ftz` does to operands and results."""
    if values.dtype != np.float32:
        return values
    return np.where(np.abs(values) < SMALLEST_NORMAL, np.copysign(np.float32(0), values), values)


def to_odd(values: Array) -> Array:
    """Round float64 to float32 toward zero, and set the last bit if that was inexact (round to odd).

    A second rounding of the result, to a narrower type, is then exact.
    """
    nearest = values.astype(np.float32)
    bits = nearest.view(np.int32)
    beyond = np.abs(nearest.astype(np.float64)) > np.abs(values)
    cut = np.where(beyond, bits - 1, bits)
    inexact = (nearest != values) & np.isfinite(values)
    return np.where(inexact, cut | 1, bits).astype(np.int32).view(np.float32)


def toward_zero(values: Array, element: str) -> Array:
    """Truncate float32 to float16 or bfloat16.  Numbers beyond their range become their largest finite number."""
    if element == "bf16":
        cut = (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        return np.where(np.isnan(values), values, cut)
    nearest = to_half(values)
    bits = nearest.view(np.uint16)
    beyond = np.abs(nearest.astype(np.float32)) > np.abs(values)
    return np.where(beyond, bits - np.uint16(1), bits).astype(np.uint16).view(np.float16).astype(np.float32)


def decode(raw: Array, element: str) -> Array:
    """Convert memory contents to carried values."""
    if element == "bf16":
        return raw.astype(np.uint32).__lshift__(16).view(np.float32)
    if element in float8.FORMATS:
        return float8.decode(raw, element)
    dtype = carrier(element)
    if raw.dtype == dtype:
        return raw
    return from_half(raw) if element == "f16" else raw.astype(dtype)


def encode(values: Array, element: str) -> Array:
    """Convert carried values to memory contents."""
    if element == "bf16":
        return _to_bfloat16_bits(values)
    if element in float8.FORMATS:
        return float8.encode(values, element)
    dtype = storage(element)
    if values.dtype == dtype:
        return values
    return to_half(values) if element == "f16" else values.astype(dtype)


def _to_bfloat16_bits(values: Array) -> Array:
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    # Adding just under half a unit of the upper 16 bits, plus their last bit, rounds ties to even.
    nearest = ((bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))) >> 16).astype(np.uint16)
    nan = np.isnan(values)
    if nan.any():
        # Rounding could turn a NaN into infinity or zero: truncate it instead, and make it quiet.
        nearest[nan] = ((bits[nan] >> 16) | 0x40).astype(np.uint16)
    return nearest
