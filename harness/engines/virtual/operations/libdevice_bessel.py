"""libdevice's Bessel functions in float64; torch's have only float32's precision.

Up to `FAR` they use the downward recurrence and Neumann's series (Abramowitz and Stegun 9.1.46, 9.1.88 and 9.1.89).
Beyond it they use Hankel's asymptotic series (9.2.5 to 9.2.10).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from harness.engines.virtual.numbers.elements import Array
from harness.errors import CannotExecute

HIGHEST_ORDER = 10_000
"""Higher orders would take too many steps."""
FAR = 30.0
NEAR = 1e-8
"""Below this, the series' first term is exact in float64."""
_FAR_TERMS = 24
_HUGE = 2.0**500


class _Orders01(NamedTuple):
    j0: Array
    j1: Array
    y0: Array
    y1: Array


def j0(values: Array) -> Array:
    """The Bessel function of the first kind and order 0."""
    return _orders_0_and_1(np.abs(values)).j0


def j1(values: Array) -> Array:
    """The Bessel function of the first kind and order 1."""
    result = _orders_0_and_1(np.abs(values)).j1
    return np.where(values < 0, -result, result)


def y0(values: Array) -> Array:
    """The Bessel function of the second kind and order 0; NaN for negative numbers."""
    return np.where(values < 0, np.nan, _orders_0_and_1(np.abs(values)).y0)


def y1(values: Array) -> Array:
    """The Bessel function of the second kind and order 1; NaN for negative numbers."""
    return np.where(values < 0, np.nan, _orders_0_and_1(np.abs(values)).y1)


def jn(orders: Array, values: Array) -> Array:
    """The Bessel function of the first kind; NaN for negative orders.

    Raises:
        CannotExecute: an order is above `HIGHEST_ORDER`.
    """
    return _by_order(_jn, orders, values)


def yn(orders: Array, values: Array) -> Array:
    """The Bessel function of the second kind; NaN for negative orders.

    Raises:
        CannotExecute: an order is above `HIGHEST_ORDER`.
    """
    return _by_order(_yn, orders, values)


def _by_order(function: Callable[[int, Array], Array], orders: Array, values: Array) -> Array:
    orders, values = np.broadcast_arrays(orders, values)
    result = np.full(values.shape, np.nan)
    for order in np.unique(orders).astype(np.int64).tolist():
        if order > HIGHEST_ORDER:
            raise CannotExecute(f"a Bessel function of order {order}")
        if order >= 0:
            result[orders == order] = function(order, values[orders == order])
    return result


def _jn(order: int, values: Array) -> Array:
    size = np.abs(values)
    functions = _orders_0_and_1(size)
    if order <= 1:
        result = functions[order]
    else:
        kept = np.clip(size, NEAR, order)
        result = np.where(size > order, _upward(order, size, functions.j0, functions.j1), _downward(order, kept))
        result = np.where(size < NEAR, np.exp(order * np.log(size / 2) - math.lgamma(order + 1)), result)
        result = np.where(np.isinf(size), 0.0, result)
    return np.where((values < 0) & (order % 2 == 1), -result, result)


def _yn(order: int, values: Array) -> Array:
    size = np.abs(values)
    functions = _orders_0_and_1(size)
    result = functions[2 + order] if order <= 1 else _upward(order, size, functions.y0, functions.y1)
    result = np.where(size == 0, -np.inf, np.where(np.isinf(size), 0.0, result))
    # The recurrence overflows to infinity minus infinity where the result exceeds float64.
    result = np.where(np.isnan(result) & ~np.isnan(values), -np.inf, result)
    return np.where(values < 0, np.nan, result)


def _upward(order: int, size: Array, lower: Array, upper: Array) -> Array:
    """The recurrence from orders 0 and 1 to a higher one; for J it is stable only below the argument."""
    for step in range(1, order):
        lower, upper = upper, 2 * step / size * upper - lower
    return upper


def _downward(order: int, size: Array) -> Array:
    """Miller's algorithm: the recurrence from a high order with any values, scaled by J0 + 2 (J2 + J4 + ...) = 1."""
    first = 2 * ((order + int(math.sqrt(200 * order)) + 20) // 2)
    above, here = np.zeros_like(size), np.ones_like(size)
    total, at_order = np.zeros_like(size), np.zeros_like(size)
    for step in range(first, 0, -1):
        above, here = here, 2 * step / size * here - above  # here: the value of order step - 1
        if step - 1 == order:
            at_order = here
        if step % 2 == 1:
            total = total + (here if step == 1 else 2 * here)
        scale = np.where(np.abs(here) > _HUGE, 1 / _HUGE, 1.0)
        above, here, total, at_order = above * scale, here * scale, total * scale, at_order * scale
    return at_order / total


def _orders_0_and_1(size: Array) -> _Orders01:
    """All four functions of orders 0 and 1 for positive arguments."""
    near = _series(np.clip(size, NEAR, FAR))
    far = _asymptotic(np.maximum(size, FAR))
    first = _Orders01(
        np.ones_like(size),
        size / 2,
        2 / np.pi * (np.log(size / 2) + np.euler_gamma),
        -2 / np.pi / size,
    )
    return _Orders01(
        *(
            np.where(np.isnan(size), np.nan, np.where(size < NEAR, tiny, np.where(size > FAR, large, middle)))
            for tiny, middle, large in zip(first, near, far, strict=True)
        )
    )


def _series(size: Array) -> _Orders01:
    """The downward recurrence for J0 and J1, and Neumann's series in its terms for Y0 and Y1."""
    above, here = np.zeros_like(size), np.full_like(size, 1e-300)
    total, even, odd = np.zeros_like(size), np.zeros_like(size), np.zeros_like(size)
    for step in range(100, 0, -1):
        above, here = here, 2 * step / size * here - above
        half, is_odd = divmod(step - 1, 2)
        sign = -1 if half % 2 else 1
        if is_odd and half:
            odd = odd + sign * (2 * half + 1) / (half * (half + 1)) * here
        elif half:
            total, even = total + 2 * here, even + sign / half * here
        scale = np.where(np.abs(here) > _HUGE, 1 / _HUGE, 1.0)
        above, here, total, even, odd = (part * scale for part in (above, here, total, even, odd))
    total = total + here
    zeroth, first, even, odd = here / total, above / total, even / total, odd / total
    logarithm = np.log(size / 2) + np.euler_gamma
    return _Orders01(
        zeroth,
        first,
        2 / np.pi * logarithm * zeroth - 4 / np.pi * even,
        -2 / np.pi / size * zeroth + 2 / np.pi * (logarithm - 1) * first - 2 / np.pi * odd,
    )


def _asymptotic(size: Array) -> _Orders01:
    sine, cosine = np.sin(size), np.cos(size)
    scale = 1 / np.sqrt(np.pi * size)
    ahead, behind = sine + cosine, sine - cosine
    even, odd = _hankel(0, size)
    zeroth = scale * (even * ahead - odd * behind), scale * (even * behind + odd * ahead)
    even, odd = _hankel(1, size)
    first = scale * (even * behind + odd * ahead), scale * (-even * ahead + odd * behind)
    result = (zeroth[0], first[0], zeroth[1], first[1])
    return _Orders01(*(np.where(np.isinf(size), 0.0, part) for part in result))


def _hankel(order: int, size: Array) -> tuple[Array, Array]:
    """The sums P and Q of Hankel's expansion."""
    term = np.ones_like(size)
    sums = [np.ones_like(size), np.zeros_like(size)]
    for step in range(1, _FAR_TERMS):
        term = term * (4 * order * order - (2 * step - 1) ** 2) / (step * 8 * size)
        sums[step % 2] = sums[step % 2] + (-term if step // 2 % 2 else term)
    return sums[0], sums[1]
