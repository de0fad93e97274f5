"""libdevice's arithmetic and conversions with a named rounding mode, rounded exactly once.

Each function computes the nearest result and the sign of the exact result minus it.  From both, `directed` picks the
correctly rounded neighbour.  float32 arithmetic uses float64, where the error of a sum is exactly known.  float64
arithmetic uses fractions, number by number.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from harness.engines.virtual.numbers.elements import Array

Function = Callable[..., Array]

_INTEGERS: Mapping[str, type[Any]] = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}
_CUTS: Mapping[str, Callable[[Array], Array]] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}


def directed(nearest: Array, error: Array, mode: str) -> Array:
    """Correct a nearest result to the rounding mode; `error` has the sign of exact minus nearest."""
    below, above = error < 0, error > 0
    match mode:
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


def narrowed(values: Array, mode: str) -> Array:
    """Convert float64 to float32 with a rounding mode."""
    nearest = values.astype(np.float32)
    return directed(nearest, values - nearest.astype(np.float64), mode)


def sum_and_rest(left: Array, right: Array) -> tuple[Array, Array]:
    """A float64 sum and its exact rounding error (Knuth's TwoSum); the error is NaN if the sum is not finite."""
    total = left + right
    part = total - left
    return total, (left - (total - part)) + (right - part)


def to_odd(total: Array, error: Array) -> Array:
    """Round a sum to odd: if it is inexact, set its last bit.  Rounding it to float32 is then correct in every mode."""
    even = (total.view(np.int64) & 1) == 0
    toward = np.where(error > 0, np.inf, -np.inf)
    return np.where(even & ((error < 0) | (error > 0)), np.nextafter(total, toward), total)


def _zero_of_a_sum(result: Array, error: Array, left: Array, right: Array, mode: str) -> Array:
    """Make the zero of terms that cancel negative when rounding down, as IEEE 754 requires."""
    if mode != "rd":
        return result
    cancel = (result == 0) & ~(error != 0) & (np.signbit(left) | np.signbit(right))
    return np.where(cancel, -np.zeros_like(result), result)


# --- float32, by float64 ---


def _sum32(mode: str, left: Array, right: Array) -> Array:
    total, error = sum_and_rest(left.astype(np.float64), right.astype(np.float64))
    return _zero_of_a_sum(narrowed(to_odd(total, error), mode), total, left, right, mode)


def _fma32(mode: str, left: Array, right: Array, addend: Array) -> Array:
    product, wide = left.astype(np.float64) * right.astype(np.float64), addend.astype(np.float64)
    total, error = sum_and_rest(product, wide)
    return _zero_of_a_sum(narrowed(to_odd(total, error), mode), total, product, wide, mode)


def _plain32(function: Function, mode: str, *operands: Array) -> Array:
    return narrowed(function(*(operand.astype(np.float64) for operand in operands)), mode)


# --- float64, by fractions ---


def _sign(value: Fraction) -> float:
    return float((value > 0) - (value < 0))


def _missing(exact: Callable[..., Fraction], nearest: Array, *operands: Array) -> Array:
    """The sign of exact minus nearest; `exact` computes it from the nearest result and finite operands."""

    def of_element(near: float, *numbers: float) -> float:
        if not np.isfinite(numbers).all() or np.isnan(near):
            return 0.0
        if np.isinf(near):  # overflow: the exact result is nearer to zero; a division by zero is exact
            return -np.sign(near) if all(numbers) or exact is not _of_quotient else 0.0
        return _sign(exact(*map(Fraction, (near, *numbers))))

    return np.asarray(np.frompyfunc(of_element, 1 + len(operands), 1)(nearest, *operands), np.float64)


def _of_sum(near: Fraction, left: Fraction, right: Fraction) -> Fraction:
    return left + right - near


def _of_product(near: Fraction, left: Fraction, right: Fraction) -> Fraction:
    return left * right - near


def _of_quotient(near: Fraction, left: Fraction, right: Fraction) -> Fraction:
    return (left - near * right) * (1 if right > 0 else -1)


def _of_root(near: Fraction, square: Fraction) -> Fraction:
    return square - near * near


def _sum64(mode: str, left: Array, right: Array) -> Array:
    nearest = left + right
    if mode == "rn":
        return nearest
    error = _missing(_of_sum, nearest, left, right)
    return _zero_of_a_sum(directed(nearest, error, mode), error, left, right, mode)


def _plain64(function: Function, exact: Callable[..., Fraction], mode: str, *operands: Array) -> Array:
    nearest = function(*operands)
    return nearest if mode == "rn" else directed(nearest, _missing(exact, nearest, *operands), mode)


def _fma64(mode: str, left: Array, right: Array, addend: Array) -> Array:
    def of_element(near: float, *numbers: float) -> tuple[float, float]:
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
    result, error = np.frompyfunc(of_element, 4, 2)(product + addend, left, right, addend)
    error = np.asarray(error, np.float64)
    return _zero_of_a_sum(directed(np.asarray(result, np.float64), error, mode), error, product, addend, mode)


# --- conversions ---


def to_integer(kind: str, cut: Callable[[Array], Array], values: Array) -> Array:
    """Convert to an integer, saturating.

    NaN gives 0 from float32 to 32 bits, otherwise only the highest bit set (PTX ISA, `cvt`).
    """
    dtype: np.dtype[Any] = np.dtype(_INTEGERS[kind])
    limits = np.iinfo(dtype)
    whole = cut(values.astype(np.float64))
    above, below = whole >= 2.0 ** (limits.bits - (kind[0] != "u")), whole < limits.min
    inside = np.where(above | below | np.isnan(whole), 0, whole).astype(dtype)
    result = np.where(above, dtype.type(limits.max), np.where(below, dtype.type(limits.min), inside))
    signed = result.view(np.dtype(f"i{dtype.itemsize}"))
    nan_result = 0 if values.dtype == np.float32 and dtype.itemsize == 4 else np.iinfo(signed.dtype).min
    return np.where(np.isnan(values), signed.dtype.type(nan_result), signed)


def _from_integer(kind: str, target: str, mode: str, values: Array) -> Array:
    numbers = values.view(_INTEGERS[kind])
    low = numbers & numbers.dtype.type(0x7FF)  # both parts are exact in float64
    total, error = sum_and_rest((numbers - low).astype(np.float64), low.astype(np.float64))
    return narrowed(to_odd(total, error), mode) if target == "float" else directed(total, error, mode)


def _functions() -> Mapping[str, Function]:
    table: dict[str, Function] = {"fma": partial(_fma64, "rn")}
    for mode, cut in _CUTS.items():
        table |= {
            f"fadd_{mode}": partial(_sum32, mode),
            f"dadd_{mode}": partial(_sum64, mode),
            f"fsub_{mode}": partial(lambda mode, left, right: _sum32(mode, left, -right), mode),
            f"dsub_{mode}": partial(lambda mode, left, right: _sum64(mode, left, -right), mode),
            f"fmul_{mode}": partial(_plain32, np.multiply, mode),
            f"dmul_{mode}": partial(_plain64, np.multiply, _of_product, mode),
            f"fdiv_{mode}": partial(_plain32, np.divide, mode),
            f"ddiv_{mode}": partial(_plain64, np.divide, _of_quotient, mode),
            f"frcp_{mode}": partial(_plain32, np.reciprocal, mode),
            f"drcp_{mode}": partial(
                lambda mode, value: _plain64(np.divide, _of_quotient, mode, np.ones_like(value), value), mode
            ),
            f"fsqrt_{mode}": partial(_plain32, np.sqrt, mode),
            f"dsqrt_{mode}": partial(_plain64, np.sqrt, _of_root, mode),
            f"fmaf_{mode}": partial(_fma32, mode),
            f"fma_{mode}": partial(_fma64, mode),
            f"double2float_{mode}": partial(lambda mode, value: narrowed(value, mode), mode),
        }
        for kind in _INTEGERS:
            table |= {f"{source}2{kind}_{mode}": partial(to_integer, kind, cut) for source in ("float", "double")}
            table |= {
                f"{kind}2{target}_{mode}": partial(_from_integer, kind, target, mode) for target in ("float", "double")
            }
    return table


FUNCTIONS: Mapping[str, Function] = _functions()
"""By symbol without `__nv_`."""
