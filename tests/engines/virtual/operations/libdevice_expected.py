"""Expected results of libdevice's functions, from fractions, integers, bits, or mpmath at 60 digits."""

import math
from collections.abc import Callable, Collection
from fractions import Fraction
from typing import Any

import mpmath
import torch
from mpmath import mp, mpf

m: Any = mpmath
mp.dps = 60

ROUNDING_MODES: dict[str, Callable[[Fraction], int]] = {
    "rn": round,
    "rz": math.trunc,
    "rd": math.floor,
    "ru": math.ceil,
}


def rounded(exact: Fraction, mode: str, kind: str) -> float:
    """Round an exact number to a float type with a rounding mode."""
    digits, least = (24, -149) if kind == "fp32" else (53, -1074)
    if exact == 0:
        return 0.0
    exponent = abs(exact).numerator.bit_length() - abs(exact).denominator.bit_length()
    exponent += (abs(exact) >= Fraction(2) ** (exponent)) - 1
    unit = Fraction(2) ** max(exponent - digits + 1, least)
    return float(ROUNDING_MODES[mode](exact / unit) * unit)


def rounded_root(square: Fraction, mode: str, kind: str) -> float:
    """Round a square root; 300 digits represent an irrational one."""
    scale = 4**600
    root = math.isqrt(math.floor(square * scale))
    exact = Fraction(root * root) == square * scale
    return rounded(Fraction(2 * root + (0 if exact else 1), 2 * 2**600), mode, kind)


def saturated(exact: int, kind: str) -> int:
    """Clamp to the range of an integer type; the bits are returned as a signed number."""
    bits = 64 if kind.endswith("ll") else 32
    least, most = (0, 2**bits - 1) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return (min(max(exact, least), most) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


ARITHMETIC: dict[str, Callable[..., Fraction]] = {
    "add": lambda left, right: left + right,
    "sub": lambda left, right: left - right,
    "mul": lambda left, right: left * right,
    "div": lambda left, right: left / right,
    "rcp": lambda value: 1 / value,
    "fma": lambda left, right, addend: left * right + addend,
}


def signed(value: int, bits: int) -> int:
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def digits(value: int, bits: int) -> str:
    return format(value % 2**bits, f"0{bits}b")


def permuted(low: int, high: int, selector: int) -> int:
    both = (low % 2**32).to_bytes(4, "little") + (high % 2**32).to_bytes(4, "little")
    return int.from_bytes(bytes(both[selector >> 4 * at & 7] for at in range(4)), "little")


def cut_24(value: int) -> int:
    return signed(value % 2**24, 24)


INTEGER: dict[str, Callable[..., int]] = {
    "abs": lambda value: max(value, -value),
    "llabs": lambda value: max(value, -value),
    "brev": lambda value: int(digits(value, 32)[::-1], 2),
    "brevll": lambda value: int(digits(value, 64)[::-1], 2),
    "byte_perm": permuted,
    "clz": lambda value: 32 - (value % 2**32).bit_length(),
    "clzll": lambda value: 64 - (value % 2**64).bit_length(),
    "ffs": lambda value: (value & -value).bit_length(),
    "ffsll": lambda value: (value & -value).bit_length(),
    "popc": lambda value: digits(value, 32).count("1"),
    "popcll": lambda value: digits(value, 64).count("1"),
    "hadd": lambda left, right: (left + right) >> 1,
    "uhadd": lambda left, right: (left + right) >> 1,
    "rhadd": lambda left, right: (left + right + 1) >> 1,
    "urhadd": lambda left, right: (left + right + 1) >> 1,
    "mulhi": lambda left, right: left * right >> 32,
    "umulhi": lambda left, right: left * right >> 32,
    "mul64hi": lambda left, right: left * right >> 64,
    "umul64hi": lambda left, right: left * right >> 64,
    "mul24": lambda left, right: cut_24(left) * cut_24(right),
    "umul24": lambda left, right: (left % 2**24) * (right % 2**24),
    "sad": lambda left, right, addend: abs(left - right) + addend,
    "usad": lambda left, right, addend: abs(left - right) + addend,
}


def half_away_from_zero(value: Any) -> Any:
    """Round to the nearest integer, halves away from zero."""
    return m.sign(value) * m.floor(abs(value) + mpf(1) / 2)


REAL: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(m, name) for name in ("sin", "cos", "tan", "exp", "cosh", "sinh", "tanh", "atan2", "atan", "asin")
    },
    **{name: getattr(m, name) for name in ("acos", "acosh", "asinh", "atanh", "expm1", "hypot", "erf", "erfc")},
    **{
        name: getattr(m, name)
        for name in ("sinpi", "cospi", "erfinv", "log", "log10", "log1p", "sqrt", "floor", "ceil", "j0", "j1")
    },
    "fabs": abs,
    "rsqrt": lambda x: 1 / m.sqrt(x),
    "frsqrt_rn": lambda x: 1 / m.sqrt(x),
    "trunc": lambda x: m.sign(x) * m.floor(abs(x)),
    "round": half_away_from_zero,
    "llround": half_away_from_zero,
    "rint": m.nint,
    "nearbyint": m.nint,
    "llrint": m.nint,
    "exp2": lambda x: m.power(2, x),
    "exp10": lambda x: m.power(10, x),
    "log2": lambda x: m.log(x, 2),
    "fma": lambda x, y, z: x * y + z,
    "pow": m.power,
    "powi": m.power,
    "fdividef": lambda x, y: x / y,
    "saturate": lambda x: min(max(x, mpf(0)), mpf(1)),
    "fdim": lambda x, y: max(x - y, mpf(0)),
    "fmod": lambda x, y: x - y * m.sign(x / y) * m.floor(abs(x / y)),
    "remainder": lambda x, y: x - y * m.nint(x / y),
    "ldexp": lambda x, n: x * mpf(2) ** n,
    "scalbn": lambda x, n: x * mpf(2) ** n,
    "ilogb": lambda x: m.floor(m.log(abs(x), 2)),
    "logb": lambda x: m.floor(m.log(abs(x), 2)),
    "rhypot": lambda x, y: 1 / m.hypot(x, y),
    "norm3d": lambda *x: m.sqrt(sum(part * part for part in x)),
    "norm4d": lambda *x: m.sqrt(sum(part * part for part in x)),
    "rnorm3d": lambda *x: 1 / m.sqrt(sum(part * part for part in x)),
    "rnorm4d": lambda *x: 1 / m.sqrt(sum(part * part for part in x)),
    "cbrt": lambda x: m.sign(x) * m.cbrt(abs(x)),
    "rcbrt": lambda x: m.sign(x) / m.cbrt(abs(x)),
    "y0": lambda x: m.bessely(0, x),
    "y1": lambda x: m.bessely(1, x),
    "jn": m.besselj,
    "yn": m.bessely,
    "cyl_bessel_i0": lambda x: m.besseli(0, x),
    "cyl_bessel_i1": lambda x: m.besseli(1, x),
    "erfcx": lambda x: m.exp(x * x) * m.erfc(x),
    "erfcinv": lambda x: m.erfinv(1 - x),
    "normcdf": m.ncdf,
    "normcdfinv": lambda x: m.sqrt(2) * m.erfinv(2 * x - 1),
    "lgamma": lambda x: m.log(abs(m.gamma(x))),
    "tgamma": m.gamma,
}

BLOCKWISE: dict[str, Callable[..., torch.Tensor]] = {
    "copysign": torch.copysign,
    "nextafter": torch.nextafter,
    "signbit": torch.signbit,
    "isinf": torch.isinf,
    "isnan": torch.isnan,
    "finite": torch.isfinite,
    "isfinite": torch.isfinite,
    "double2hiint": lambda value: (value.view(torch.int64) >> 32).int(),
    "double2loint": lambda value: value.view(torch.int64).int(),
    "double_as_longlong": lambda value: value.view(torch.int64),
    "float_as_int": lambda value: value.view(torch.int32),
    "float_as_uint": lambda value: value.view(torch.int32),
    "int_as_float": lambda value: value.view(torch.float32),
    "uint_as_float": lambda value: value.view(torch.float32),
    "longlong_as_double": lambda value: value.view(torch.float64),
    "hiloint2double": lambda high, low: (high.long() << 32 | low.long() & 0xFFFFFFFF).view(torch.float64),
}
"""Functions of whole blocks, which are also tested with infinities and NaN."""


def table_name(symbol: str, known: Collection[str]) -> str:
    """The symbol's name in a table, without prefix and type suffix; empty if it is not there."""
    name = symbol.removeprefix("__nv_").removeprefix("fast_")
    return next((form for form in (name, name.removesuffix("f"), name.removesuffix("d")) if form in known), "")


def by_rounding(symbol: str, result_type: str, *numbers: float) -> float:
    """The result of arithmetic and conversions with a named rounding mode, for finite numbers."""
    name, _, mode = symbol.removeprefix("__nv_").rpartition("_")
    exact = tuple(map(Fraction, numbers))
    if "2" in name:
        kind = name.partition("2")[2]
        return (
            rounded(exact[0], mode, result_type)
            if result_type in {"fp32", "fp64"}
            else saturated(ROUNDING_MODES[mode](exact[0]), kind)
        )
    if "sqrt" in name:
        return rounded_root(exact[0], mode, result_type) if exact[0] >= 0 else math.nan
    (operation,) = (operation for operation in ARITHMETIC if operation in name)
    return rounded(ARITHMETIC[operation](*exact), mode, result_type)


def by_mpmath(name: str, *numbers: float) -> float:
    """The nearest float64; NaN if the result is not real."""
    answer = REAL[name](*(int(number) if isinstance(number, int) else mpf(number) for number in numbers))
    if isinstance(answer, m.mpc):
        return float(answer.real) if answer.imag == 0 else math.nan
    return float(answer)


def expectation(symbol: str, result_type: str) -> tuple[Callable[..., float], float]:
    """The function that computes a symbol's expected result, and the relative tolerance."""
    name = table_name(symbol, REAL)
    if name and result_type == "int64":
        return lambda *numbers: saturated(int(by_mpmath(name, *numbers)), "ll"), 0.0
    if name:
        return lambda *numbers: by_mpmath(name, *numbers), 2.4e-7 if result_type == "fp32" else 2e-13
    if name := table_name(symbol, INTEGER):
        bits = 64 if "64" in result_type else 32
        return lambda *numbers: signed(INTEGER[name](*numbers), bits), 0.0
    return lambda *numbers: by_rounding(symbol, result_type, *numbers), 0.0
