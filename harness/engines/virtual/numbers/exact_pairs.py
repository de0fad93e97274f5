"""Values of an exact run: numbers as the kernel rounds them, each beside what it would be without rounding."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import e, log, pi, sqrt

import numpy as np
import torch

from harness.engines.virtual.numbers.elements import NARROW_FLOATS, Array, carrier, rounded

TORCH_TYPES: Mapping[str, torch.dtype] = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}
"""The floating-point types whose exact values are followed, by TTIR name."""


@dataclass(frozen=True, slots=True)
class ExactPair:
    """A block of floating-point numbers twice: as the kernel rounds them, and in float64 without any rounding.

    An exact NaN beside a real number means that the exact value is unknown.
    """

    real: Array
    exact: Array


def decided_otherwise(real: Array, exact: Array, operands: list[ExactPair]) -> bool:
    """Return True if a decision on exact operands differs from the one on real operands, where these are known."""
    differs = real != exact
    if not differs.any():
        return False
    for operand in operands:
        differs = differs & ~(np.isnan(operand.exact) & ~np.isnan(operand.real))
    return bool(differs.any())


# --- constants ---

MATHEMATICAL_CONSTANTS = (
    *(1 / log(2), log(2), log(10), 1 / log(10), log(10) / log(2), log(2) / log(10), e, 1 / e),
    *(pi, 2 * pi, pi / 2, pi / 4, 1 / pi, 2 / pi, 1 / (2 * pi)),
    *(sqrt(2), sqrt(0.5), sqrt(2 / pi), 2 / sqrt(pi), sqrt(pi), 1 / sqrt(2 * pi), sqrt(2 * pi), 1 / sqrt(pi)),
)
MOST_DIGITS = 7
"""The digits of a decimal that float32 keeps."""
LARGEST_DENOMINATOR = 64


@lru_cache(maxsize=4096)
def exact_constant(value: float, element: str) -> float:
    """Return the number that a constant of a kernel most likely stands for, before it was rounded to its type.

    That is a well-known constant, a fraction with a small denominator or a short decimal, if it rounds to `value`.
    """
    if not np.isfinite(value) or value == 0:
        return value

    def rounds_to_it(number: float) -> bool:
        with np.errstate(all="ignore"):
            return bool(rounded(np.array([number], carrier(element)), element)[0] == value)

    short = (float(f"{value:.{digits}g}") for digits in range(1, MOST_DIGITS))
    known = (sign * constant for constant in MATHEMATICAL_CONSTANTS for sign in (1, -1))
    fraction = float(Fraction(value).limit_denominator(LARGEST_DENOMINATOR))
    candidates = (*known, *short, fraction) if element not in NARROW_FLOATS else (*short, *known, fraction)
    return next((number for number in candidates if rounds_to_it(number)), value)
