"""`tt.extern_elementwise`: functions of NVIDIA's libdevice, by their symbol.

Computed in float64 and rounded once: libdevice's own results lie within a few units in the last place of that.  The
symbols' meaning is that of the CUDA Math API; `f` at the end marks the float32 form, and `fast_` the less exact one.
"""

from collections.abc import Callable, Mapping

import numpy as np
import torch

from harness.errors import CannotExecute
from harness.virtual.elements import Array, carrier, rounded
from harness.virtual.ir import Operation
from harness.virtual.machine import Handler, Machine, Value
from harness.virtual.operations_arith import array

PREFIX = "__nv_"
_INTEGER_RESULTS = frozenset({"isnan", "isinf", "isfinited", "finite", "signbit"})


def _through_torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Array], Array]:
    return lambda value: function(torch.from_numpy(np.ascontiguousarray(value))).numpy()


def _away_from_zero(value: Array) -> Array:
    """To the nearest integer, halves away from zero."""
    return np.trunc(value + np.copysign(0.5, value))


FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "abs": np.abs,
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
    "div_rn": np.divide,
    "erf": _through_torch(torch.erf),
    "erfc": _through_torch(torch.erfc),
    "erfinv": _through_torch(torch.erfinv),
    "exp": np.exp,
    "exp10": lambda value: np.power(10.0, value),
    "exp2": np.exp2,
    "expm1": np.expm1,
    "fabs": np.abs,
    "finite": np.isfinite,
    "floor": np.floor,
    "fma": lambda left, right, addend: left * right + addend,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "isfinited": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "lgamma": _through_torch(torch.lgamma),
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "nearbyint": np.rint,
    "pow": np.power,
    "powi": np.power,
    "rcp_rn": np.reciprocal,
    "rint": np.rint,
    "round": _away_from_zero,
    "rsqrt": lambda value: 1 / np.sqrt(value),
    "signbit": np.signbit,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "sqrt_rn": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}


def named(symbol: str) -> tuple[str, Callable[..., Array]]:
    """A symbol's function, under the name of its float64 form.

    Raises:
        CannotExecute: the symbol is not known.
    """
    name = symbol.removeprefix(PREFIX).removeprefix("fast_")
    for form in (name, name.removesuffix("f")):
        if form in FUNCTIONS:
            return form, FUNCTIONS[form]
    raise CannotExecute(f"the external function {symbol}")


def call(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.extern_elementwise`."""
    del machine
    name, function = named(str(operation.attributes["symbol"]))
    made = function(*[array(frame[slot]).astype(np.float64) for slot in operation.operands])
    element = operation.result_types[0].element
    if name in _INTEGER_RESULTS:
        return made.astype(carrier(element))
    return rounded(made.astype(carrier(element)), element)


HANDLERS: Mapping[str, Handler] = {"tt.extern_elementwise": call}
