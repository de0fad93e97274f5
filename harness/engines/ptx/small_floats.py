"""Floating-point numbers of four and eight bits, and scales, as tensor cores read them."""

import numpy as np

from harness.engines.ptx.threads import Array
from harness.engines.virtual.operations.ptx_instructions import parts_of

_PADDING = 2
"""Of a number of four bits in a byte, the bits below it."""


def numbers_of_bytes(codes: Array, kind: str, *, is_padded: bool) -> Array:
    """Return codes as float64.

    Args:
        codes: one code in each byte.
        kind: `e4m3`, `e5m2` or `e2m1`.
        is_padded: a number of four bits lies in the middle of its byte.
    """
    if kind == "e2m1" and is_padded:
        codes = codes >> _PADDING
    return parts_of(codes, kind)[..., 0].astype(np.float64)


def scales_of(codes: Array, kind: str) -> Array:
    """Return scales as float64: powers of two (`ue8m0`), or numbers of eight bits without a sign (`ue4m3`)."""
    kind, codes = ("e4m3", codes & 0x7F) if kind == "ue4m3" else (kind, codes)
    return parts_of(codes, kind)[..., 0].astype(np.float64)
