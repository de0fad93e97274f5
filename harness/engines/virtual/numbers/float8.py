"""The 8-bit floating-point types of GPUs: their bytes, and rounding to them.

Overflow saturates to the largest finite value, infinities too, as `cvt.rn.satfinite` does.  Every NaN has the same
byte.  Checked bit for bit with an NVIDIA H200 (Triton 3.6.0) for all float16 and bfloat16 numbers and 65,536 float32
ones.

The types whose names end with UZ are those of AMD's CDNA 3.  They have neither infinities nor a negative zero, whose
byte is the NaN.  Triton sets FP16_OVFL there, with which the hardware's conversions saturate too (AMD Instinct MI300
instruction set reference, MODE register).
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Format:
    """The bits and the range of one type."""

    fraction_bits: int
    lowest_exponent: int
    """That of the smallest normal number, and of all subnormal ones."""
    largest: float
    has_infinity: bool = False
    is_unsigned_zero: bool = False
    """The byte of a negative zero is the NaN."""

    @property
    def nan_byte(self) -> int:
        return 0x80 if self.is_unsigned_zero else 0x7F


FORMATS = {
    "f8E4M3FN": Format(fraction_bits=3, lowest_exponent=-6, largest=448.0),
    "f8E5M2": Format(fraction_bits=2, lowest_exponent=-14, largest=57_344.0, has_infinity=True),
    "f8E4M3FNUZ": Format(fraction_bits=3, lowest_exponent=-7, largest=240.0, is_unsigned_zero=True),
    "f8E5M2FNUZ": Format(fraction_bits=2, lowest_exponent=-15, largest=57_344.0, is_unsigned_zero=True),
}


def decode(raw: Array, element: str) -> Array:
    """Convert bytes to float32."""
    return _values_of(element)[raw.view(np.uint8)]


@cache
def _values_of(element: str) -> Array:
    """Return the float32 of each byte."""
    kind = FORMATS[element]
    magnitudes = np.arange(128)
    exponent, fraction = magnitudes >> kind.fraction_bits, magnitudes & (1 << kind.fraction_bits) - 1
    wide = (fraction + (np.minimum(exponent, 1) << kind.fraction_bits)).astype(np.float32)
    values = np.ldexp(wide, np.maximum(exponent, 1) - 1 + kind.lowest_exponent - kind.fraction_bits)
    both = np.concatenate([values, -values]).astype(np.float32)
    if kind.has_infinity:
        special = exponent == exponent.max()
        # As NVIDIA's conversion to float16 and on to float32 leaves them: NaNs keep their fraction.
        bits = np.uint32(0x7F800000) | fraction.astype(np.uint32) << 21
        both[np.tile(special, 2)] = np.concatenate([bits[special], bits[special] | np.uint32(1 << 31)]).view(np.float32)
    else:
        both[[kind.nan_byte] if kind.is_unsigned_zero else [0x7F, 0xFF]] = np.nan
    return both


def encode(values: Array, element: str) -> Array:
    """Convert float32 to bytes; the values must be representable in the type."""
    kind = FORMATS[element]
    finite = _values_of(element)[:128]
    finite = finite[np.isfinite(finite)]
    raw = np.searchsorted(finite, np.abs(values)).astype(np.uint8)
    if kind.has_infinity:
        raw = np.where(np.isinf(values), np.uint8(finite.size), raw)
    negative = np.signbit(values) & ((raw != 0) | (not kind.is_unsigned_zero))
    return np.where(np.isnan(values), np.uint8(kind.nan_byte), raw | (negative.astype(np.uint8) << 7))


def rounded(values: Array, element: str) -> Array:
    """Round float32 to the nearest number of the type, ties to even."""
    kind = FORMATS[element]
    wide = np.clip(values.astype(np.float64), -kind.largest, kind.largest)
    _, exponent = np.frexp(np.where(np.isnan(wide), 0.0, wide))
    step = np.ldexp(1.0, np.maximum(exponent - 1, kind.lowest_exponent) - kind.fraction_bits)
    nearest = np.clip(np.rint(wide / step) * step, -kind.largest, kind.largest).astype(np.float32)
    return nearest + np.float32(0) if kind.is_unsigned_zero else nearest
