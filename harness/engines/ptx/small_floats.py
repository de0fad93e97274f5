"""Floating-point numbers of four and eight bits, and scales, as tensor cores read them."""

import numpy as np

from harness.engines.ptx.threads import Array
from harness.engines.virtual.numbers import float8

_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
"""The numbers of four bits without their sign, by code."""
_PADDING = 2
"""Of a number of four bits in a byte, the bits below it."""


def numbers_of_bytes(codes: Array, kind: str, *, is_padded: bool) -> Array:
    """Return codes as float64.

    Args:
        codes: one code in each byte.
        kind: `e4m3`, `e5m2` or `e2m1`.
        is_padded: a number of four bits lies in the middle of its byte.
    """
    if kind == "e2m1":
        codes = codes >> _PADDING if is_padded else codes
        return _E2M1[codes & 7] * np.where(codes & 8, -1.0, 1.0)
    return float8.decode(codes, "f8E4M3FN" if kind == "e4m3" else "f8E5M2").astype(np.float64)


def scales_of(codes: Array, kind: str) -> Array:
    """Return scales as float64: powers of two (`ue8m0`), or numbers of eight bits without a sign (`ue4m3`)."""
    if kind == "ue8m0":
        return np.where(codes == 0xFF, np.nan, np.ldexp(1.0, codes.astype(np.int32) - 127))
    return float8.decode(codes & 0x7F, "f8E4M3FN").astype(np.float64)
