"""libdevice's arithmetic and conversions that name how they round: exact, then rounded once the way they say.

What a nearest result misses is known exactly: float32 arithmetic is done in float64, whose sums have an exact remainder
and whose quotients and roots never hide one; float64 arithmetic asks fractions, number by number.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from harness.virtual.numbers.elements import Array

Function = Callable[..., Array]

_INTEGERS: Mapping[str, type[Any]] = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}
_CUTS: Mapping[str, Callable[[Array], Array]] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}


def directed(nearest: Array, missing: Array, way: str) -> Array:
    """The neighbour of a nearest result on the side that is asked for; `missing` has the sign of exact less nearest."""
    below, above = missing < 0, missing > 0
    match way:
        case "rd":
            above = np.zeros_like(above)
        case "ru":
            below = np.zeros_like(below)
        case "rz":
            below, above = below & (nearest > 0), above & (nearest < 0)
        case _:
            return nearest
    end = nearest.dtype.type(np.inf)
    return np.where(below, np.nextafter(nearest, -end), np.where(above, np.nextafter(nearest, end), nearest))


def narrowed(values: Array, way: str) -> Array:
    """float64 to float32."""
    nearest = values.astype(np.float32)
    return directed(nearest, values - nearest.astype(np.float64), way)


def sum_and_rest(left: Array, right: Array) -> tuple[Array, Array]:
    """A float64 sum, and exactly what it misses; NaN where the sum is infinite or NaN."""
    total = left + right
    part = total - left
    return total, (left - (total - part)) + (right - part)


def to_odd(total: Array, rest: Array) -> Array:
    """A sum that misses something, made one whose last bit is set: rounding it to float32 is then exact in each way."""
    even = (total.view(np.int64) & 1) == 0
    toward = np.where(rest > 0, np.inf, -np.inf)
    return np.where(even & ((rest < 0) | (rest > 0)), np.nextafter(total, toward), total)


def _zero_of_a_sum(made: Array, missing: Array, left: Array, right: Array, way: str) -> Array:
    """Rounding down, terms that cancel leave a negative zero."""
    if way != "rd":
        return made
    cancel = (made == 0) & ~(missing != 0) & (np.signbit(left) | np.signbit(right))
    return np.where(cancel, -np.zeros_like(made), made)


# --- float32, by float64 ---


def _sum32(way: str, left: Array, right: Array) -> Array:
    total, rest = sum_and_rest(left.astype(np.float64), right.astype(np.float64))
    return _zero_of_a_sum(narrowed(to_odd(total, rest), way), total, left, right, way)


def _fma32(way: str, left: Array, right: Array, addend: Array) -> Array:
    product, wide = left.astype(np.float64) * right.astype(np.float64), addend.astype(np.float64)
    total, rest = sum_and_rest(product, wide)
    return _zero_of_a_sum(narrowed(to_odd(total, rest), way), total, product, wide, way)


def _plain32(function: Function, way: str, *operands: Array) -> Array:
    return narrowed(function(*(operand.astype(np.float64) for operand in operands)), way)


# --- float64, by fractions ---


def _sign(value: Fraction) -> float:
    return float((value > 0) - (value < 0))


def _missing(exact: Callable[..., Fraction], nearest: Array, *operands: Array) -> Array:
    """The sign of what a nearest result misses; `exact` gives it from the nearest one and the operands, if finite."""

    def one(near: float, *numbers: float) -> float:
        if not np.isfinite(numbers).all() or np.isnan(near):
            return 0.0
        if np.isinf(near):
            return -np.sign(near) if all(numbers) or exact is not _of_quotient else 0.0
        return _sign(exact(*map(Fraction, (near, *numbers))))

    return np.asarray(np.frompyfunc(one, 1 + len(operands), 1)(nearest, *operands), np.float64)


def _of_sum(near: Fraction, left: Fraction, right: Fraction) -> Fraction:
    return left + right - near


def _of_product(near: Fraction, left: Fraction, right: Fraction) -> Fraction:
    return left * right - near


def _of_quotient(near: Fraction, left: Fraction, right: Fraction) -> Fraction:
    return (left - near * right) * (1 if right > 0 else -1)


def _of_root(near: Fraction, square: Fraction) -> Fraction:
    return square - near * near


def _sum64(way: str, left: Array, right: Array) -> Array:
    nearest = left + right
    if way == "rn":
        return nearest
    missing = _missing(_of_sum, nearest, left, right)
    return _zero_of_a_sum(directed(nearest, missing, way), missing, left, right, way)


def _plain64(function: Function, exact: Callable[..., Fraction], way: str, *operands: Array) -> Array:
    nearest = function(*operands)
    return nearest if way == "rn" else directed(nearest, _missing(exact, nearest, *operands), way)


def _fma64(way: str, left: Array, right: Array, addend: Array) -> Array:
    def one(near: float, *numbers: float) -> tuple[float, float]:
        if not np.isfinite(numbers).all():
            return near, 0.0
        first, second, third = map(Fraction, numbers)
        exact = first * second + third
        if exact == 0:
            return near, 0.0
        try:
            nearest = float(exact)
        except OverflowError:
            return np.copysign(np.inf, _sign(exact)), -_sign(exact)
        return np.copysign(nearest, _sign(exact)), _sign(exact - Fraction(nearest))

    product = left * right
    made, missing = np.frompyfunc(one, 4, 2)(product + addend, left, right, addend)
    missing = np.asarray(missing, np.float64)
    return _zero_of_a_sum(directed(np.asarray(made, np.float64), missing, way), missing, product, addend, way)


# --- conversions ---


def to_integer(kind: str, cut: Callable[[Array], Array], values: Array) -> Array:
    """Saturating.  NaN gives 0 from float32 in 32 bits and else the highest bit alone (PTX ISA, `cvt`)."""
    wanted: np.dtype[Any] = np.dtype(_INTEGERS[kind])
    limits = np.iinfo(wanted)
    whole = cut(values.astype(np.float64))
    above, below = whole >= 2.0 ** (limits.bits - (kind[0] != "u")), whole < limits.min
    inside = np.where(above | below | np.isnan(whole), 0, whole).astype(wanted)
    made = np.where(above, wanted.type(limits.max), np.where(below, wanted.type(limits.min), inside))
    signed = made.view(np.dtype(f"i{wanted.itemsize}"))
    nan = 0 if values.dtype == np.float32 and wanted.itemsize == 4 else np.iinfo(signed.dtype).min
    return np.where(np.isnan(values), signed.dtype.type(nan), signed)


def _from_integer(kind: str, result: str, way: str, values: Array) -> Array:
    numbers = values.view(_INTEGERS[kind])
    low = numbers & numbers.dtype.type(0x7FF)  # both parts are exact in float64
    total, rest = sum_and_rest((numbers - low).astype(np.float64), low.astype(np.float64))
    return narrowed(to_odd(total, rest), way) if result == "float" else directed(total, rest, way)


def _functions() -> Mapping[str, Function]:
    made: dict[str, Function] = {"fma": partial(_fma64, "rn")}
    for way, cut in _CUTS.items():
        made |= {
            f"fadd_{way}": partial(_sum32, way),
            f"dadd_{way}": partial(_sum64, way),
            f"fsub_{way}": partial(lambda way, left, right: _sum32(way, left, -right), way),
            f"dsub_{way}": partial(lambda way, left, right: _sum64(way, left, -right), way),
            f"fmul_{way}": partial(_plain32, np.multiply, way),
            f"dmul_{way}": partial(_plain64, np.multiply, _of_product, way),
            f"fdiv_{way}": partial(_plain32, np.divide, way),
            f"ddiv_{way}": partial(_plain64, np.divide, _of_quotient, way),
            f"frcp_{way}": partial(_plain32, np.reciprocal, way),
            f"drcp_{way}": partial(
                lambda way, value: _plain64(np.divide, _of_quotient, way, np.ones_like(value), value), way
            ),
            f"fsqrt_{way}": partial(_plain32, np.sqrt, way),
            f"dsqrt_{way}": partial(_plain64, np.sqrt, _of_root, way),
            f"fmaf_{way}": partial(_fma32, way),
            f"fma_{way}": partial(_fma64, way),
            f"double2float_{way}": partial(lambda way, value: narrowed(value, way), way),
        }
        for kind in _INTEGERS:
            made |= {f"{source}2{kind}_{way}": partial(to_integer, kind, cut) for source in ("float", "double")}
            made |= {
                f"{kind}2{result}_{way}": partial(_from_integer, kind, result, way) for result in ("float", "double")
            }
    return made


FUNCTIONS: Mapping[str, Function] = _functions()
"""By their symbols without `__nv_`."""
