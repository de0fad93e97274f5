"""`tt.extern_elementwise`: functions of NVIDIA's libdevice and of AMD's device libraries, by libdevice's name.

Functions with one correct result give that: integers, bits, arithmetic with a named rounding mode.  All others are
computed in float64 and rounded once; libdevice's own results are within a few units in the last place of that.  The
CUDA Math API defines the symbols: a final `f` marks the float32 form, `fast_` the less exact one.  Subnormal float32
numbers are kept, although Triton's builds flush some to zero.
"""

import re
from collections.abc import Callable, Mapping

import numpy as np
import torch

from harness.engines.ttir.ir import Operation
from harness.engines.virtual.machine import Handler, Machine, Value
from harness.engines.virtual.numbers.elements import Array, carrier, rounded
from harness.engines.virtual.operations import libdevice_bessel, libdevice_bits, libdevice_rounding, libdevice_special
from harness.engines.virtual.operations.arith import array
from harness.engines.virtual.operations.libdevice_names import libdevice_name
from harness.engines.virtual.operations.libdevice_special import through_torch
from harness.errors import CannotExecute

_EXACT: Mapping[str, Callable[..., Array]] = {**libdevice_bits.FUNCTIONS, **libdevice_rounding.FUNCTIONS}

FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "copysign": np.copysign,
    "cos": np.cos,
    "cosh": np.cosh,
    "cospi": libdevice_special.cosine_of_pi,
    "cyl_bessel_i0": through_torch(torch.special.i0),
    "cyl_bessel_i1": through_torch(torch.special.i1),
    "erf": through_torch(torch.erf),
    "erfc": through_torch(torch.erfc),
    "erfcinv": libdevice_special.erfcinv,
    "erfcx": through_torch(torch.special.erfcx),
    "erfinv": through_torch(torch.erfinv),
    "exp": np.exp,
    "exp10": lambda value: np.power(10.0, value),
    "exp2": np.exp2,
    "expm1": np.expm1,
    "fabs": np.abs,
    "fdim": libdevice_special.positive_difference,
    "fdividef": libdevice_special.fast_quotient,
    "finite": np.isfinite,
    "floor": np.floor,
    "fma": lambda left, right, addend: left * right + addend,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "fmod": np.fmod,
    "frsqrt_rn": lambda value: 1 / np.sqrt(value),
    "hypot": np.hypot,
    "isfinited": np.isfinite,
    "isinf": np.isinf,
    "isinfd": np.isinf,
    "isnan": np.isnan,
    "isnand": np.isnan,
    "j0": libdevice_bessel.j0,
    "j1": libdevice_bessel.j1,
    "jn": libdevice_bessel.jn,
    "ldexp": libdevice_special.scaled,
    "lgamma": through_torch(torch.lgamma),
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "logb": libdevice_special.exponent,
    "nearbyint": np.rint,
    "norm3d": libdevice_special.length,
    "norm4d": libdevice_special.length,
    "normcdf": through_torch(torch.special.ndtr),
    "normcdfinv": libdevice_special.quantile,
    "pow": np.power,
    "powi": np.power,
    "rcbrt": lambda value: 1 / np.cbrt(value),
    "remainder": libdevice_special.remainder,
    "rhypot": lambda left, right: 1 / np.hypot(left, right),
    "rint": np.rint,
    "rnorm3d": lambda *parts: 1 / libdevice_special.length(*parts),
    "rnorm4d": lambda *parts: 1 / libdevice_special.length(*parts),
    "round": libdevice_bits.away_from_zero,
    "rsqrt": lambda value: 1 / np.sqrt(value),
    "saturate": libdevice_special.saturated,
    "scalbn": libdevice_special.scaled,
    "signbit": np.signbit,
    "signbitd": np.signbit,
    "sin": np.sin,
    "sinh": np.sinh,
    "sinpi": libdevice_special.sine_of_pi,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "tgamma": libdevice_special.gamma,
    "trunc": np.trunc,
    "y0": libdevice_bessel.y0,
    "y1": libdevice_bessel.y1,
    "yn": libdevice_bessel.yn,
}


def named(symbol: str) -> Callable[..., Array]:
    """Return the float64 function of a symbol.

    Raises:
        CannotExecute: the symbol is not known.
    """
    name = libdevice_name(symbol).removeprefix("fast_")
    for form in (name, name.removesuffix("f")):
        if form in FUNCTIONS:
            return FUNCTIONS[form]
    raise CannotExecute(f"the external function {symbol}")


_ROUNDED_ARITHMETIC: Mapping[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
    "rcp": np.reciprocal,
    "rsqrt": lambda value: 1 / np.sqrt(value),
    "ma": lambda left, right, addend: left * right + addend,
}
_WITH_ROUNDING_MODE = re.compile(r"[fd](\w+?)f?_r[nzud]")


def exact_function(symbol: str) -> Callable[..., Array] | None:
    """Return the function of a symbol on float64 numbers, without any rounding; None if it works on bits."""
    name = libdevice_name(symbol)
    arithmetic = _WITH_ROUNDING_MODE.fullmatch(name)
    if arithmetic is not None and arithmetic[1] in _ROUNDED_ARITHMETIC:
        return _ROUNDED_ARITHMETIC[arithmetic[1]]
    return None if name in _EXACT else named(symbol)


def call(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.extern_elementwise`."""
    del machine
    symbol = str(operation.attributes["symbol"])
    operands = [array(frame[slot]) for slot in operation.operands]
    exact = _EXACT.get(libdevice_name(symbol))
    if exact is not None:
        return exact(*operands)
    element = operation.result_types[0].element
    result = named(symbol)(*(operand.astype(np.float64) for operand in operands))
    return rounded(result.astype(carrier(element)), element)


HANDLERS: Mapping[str, Handler] = {"tt.extern_elementwise": call}
