"""libdevice's special functions in float64, as far as NumPy lacks them."""

import math
from collections.abc import Callable

import numpy as np
import torch

from harness.engines.torch.torch_seam import plain_torch
from harness.engines.virtual.numbers.elements import Array


def through_torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Array], Array]:
    """Wrap a torch function so that it takes and returns arrays."""

    def through(value: Array) -> Array:
        with plain_torch():
            return function(torch.from_numpy(np.ascontiguousarray(value))).numpy()

    return through


quantile = through_torch(torch.special.ndtri)
"""The inverse of the standard normal distribution's cumulative distribution function."""


def erfcinv(value: Array) -> Array:
    """The inverse of `erfc`, from the quantile, which is accurate near 0 too."""
    return -quantile(value / 2) / math.sqrt(2)


def gamma(value: Array) -> Array:
    """The gamma function; NaN at the negative poles, a signed infinity at 0."""

    def of_element(number: float) -> float:
        if number == 0:
            return math.copysign(math.inf, number)
        try:
            return math.gamma(number)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return np.asarray(np.frompyfunc(of_element, 1, 1)(value), np.float64)


def remainder(left: Array, right: Array) -> Array:
    """The exact IEEE remainder: the quotient is rounded to nearest, ties to even."""

    def of_element(number: float, by: float) -> float:
        return math.nan if math.isinf(number) or by == 0 else math.remainder(number, by)

    return np.asarray(np.frompyfunc(of_element, 2, 1)(left, right), np.float64)


def sine_of_pi(value: Array) -> Array:
    """sin(pi x), with exact zeros."""
    near = value - 2 * np.rint(value / 2)
    near = np.where(np.abs(near) > 0.5, np.copysign(1, near) - near, near)  # sin(pi - x) = sin(x)
    result = np.sin(np.pi * near)
    return np.where(result == 0, np.copysign(0.0, value), result)


def cosine_of_pi(value: Array) -> Array:
    """cos(pi x), with exact zeros."""
    near = np.abs(value - 2 * np.rint(value / 2))
    return np.sin(np.pi * (0.5 - near))


def positive_difference(left: Array, right: Array) -> Array:
    """The difference, or zero if it is negative."""
    return np.where(left <= right, 0.0, left - right)


def saturated(value: Array) -> Array:
    """Clamp to the range from 0 to 1; NaN becomes 0."""
    return np.where(np.isnan(value), 0.0, np.clip(value, 0.0, 1.0))


def scaled(value: Array, exponent: Array) -> Array:
    """Multiply by a power of two."""
    # Float64 exponents span about 2,100: clipping changes no result and makes the exponent fit an int32.
    return np.ldexp(value, np.clip(exponent, -5000, 5000).astype(np.int32))


def exponent(value: Array) -> Array:
    """The exponent of the leading binary digit (`logb`)."""
    result = (np.frexp(value)[1] - 1).astype(np.float64)
    result = np.where(value == 0, -np.inf, result)
    return np.where(np.isfinite(value), result, np.abs(value))


def length(*parts: Array) -> Array:
    """The root of the sum of squares, computed so that no square overflows."""
    total = parts[0]
    for part in parts[1:]:
        total = np.hypot(total, part)
    return total


def fast_quotient(left: Array, right: Array) -> Array:
    """`__fdividef`: for divisors beyond 2**126 the result is 0, or NaN if the dividend is infinite."""
    beyond = (np.abs(right) > 2.0**126) & np.isfinite(right)
    return np.where(beyond, np.where(np.isinf(left), np.nan, 0 * left * right), left / right)
