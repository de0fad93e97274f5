"""The 8-bit floating-point types of NVIDIA GPUs: their bytes, and rounding to them.

Both are decoded through float16, whose exponent is as wide as that of f8E5M2.  Overflow saturates to the largest finite
value, infinities too, as `cvt.rn.satfinite` does.  Every NaN has the same byte.  Checked bit for bit with an NVIDIA
H200 (Triton 3.6.0) for all float16 and bfloat16 numbers and 65,536 float32 ones.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Format:
    """One type: the position of its bits in a float16, and its range."""

    shift: int
    """Its byte without the sign is a float16's bits shifted right by this."""
    scale: float
    """The value is that of this float16 times this."""
    fraction_bits: int
    lowest_exponent: int
    largest: float
    has_infinity: bool


FORMATS = {
    "f8E4M3FN": Format(shift=7, scale=256.0, fraction_bits=3, lowest_exponent=-6, largest=448.0, has_infinity=False),
    "f8E5M2": Format(shift=8, scale=1.0, fraction_bits=2, lowest_exponent=-14, largest=57_344.0, has_infinity=True),
}
NAN_BYTE = 0x7F


def decode(raw: Array, element: str) -> Array:
    """Convert bytes to float32."""
    kind = FORMATS[element]
    wide = raw.astype(np.uint16)
    halves = (((wide & 0x7F) << kind.shift) | ((wide & 0x80) << 8)).astype(np.uint16).view(np.float16)
    values = halves.astype(np.float32) * np.float32(kind.scale)
    if not kind.has_infinity:
        return np.where((wide & 0x7F) == NAN_BYTE, np.float32("nan"), values)
    bits = (wide.astype(np.uint32) & 0x80) << 24 | np.uint32(0x7F800000) | (wide.astype(np.uint32) & 3) << 21
    # NaNs and infinities are built from bits: the conversion from float16 would change a NaN.
    return np.where((wide & 0x7C) == 0x7C, bits.view(np.float32), values)


def encode(values: Array, element: str) -> Array:
    """Convert float32 to bytes; the values must be representable in the type."""
    kind = FORMATS[element]
    bits = (values / np.float32(kind.scale)).astype(np.float16).view(np.uint16)
    raw = (((bits & 0x7FFF) >> kind.shift) | ((bits & 0x8000) >> 8)).astype(np.uint8)
    return np.where(np.isnan(values), np.uint8(NAN_BYTE), raw)


def rounded(values: Array, element: str) -> Array:
    """Round float32 to the nearest number of the type, ties to even."""
    kind = FORMATS[element]
    wide = np.clip(values.astype(np.float64), -kind.largest, kind.largest)
    _, exponent = np.frexp(np.where(np.isnan(wide), 0.0, wide))
    step = np.ldexp(1.0, np.maximum(exponent - 1, kind.lowest_exponent) - kind.fraction_bits)
    return np.clip(np.rint(wide / step) * step, -kind.largest, kind.largest).astype(np.float32)
