"""Functions that are computed in float64, through the process's mathematical library, and rounded once."""

from collections.abc import Callable

from harness.errors import CannotExecute
from harness.virtual.native.lane_values import LaneValues, of, register, spread, suffix
from harness.virtual.native.llvm_text import Assembly
from harness.virtual.native.rounding import flushed, resized, rounded
from harness.virtual.ttir.ir import Operation

Rule = Callable[[Assembly, Operation, list[LaneValues]], LaneValues]

EXTERNAL = {
    "acos": "acos",
    "acosh": "acosh",
    "asin": "asin",
    "asinh": "asinh",
    "atan": "atan",
    "atan2": "atan2",
    "atanh": "atanh",
    "cbrt": "cbrt",
    "cos": "cos",
    "cosh": "cosh",
    "erf": "erf",
    "erfc": "erfc",
    "exp": "exp",
    "exp2": "exp2",
    "expm1": "expm1",
    "fmod": "fmod",
    "hypot": "hypot",
    "log": "log",
    "log10": "log10",
    "log1p": "log1p",
    "log2": "log2",
    "pow": "pow",
    "sin": "sin",
    "sinh": "sinh",
    "tan": "tan",
    "tanh": "tanh",
}
"""libdevice's functions, without prefix and type, and the C library's."""
_INTRINSICS = {
    "abs": "fabs",
    "fabs": "fabs",
    "ceil": "ceil",
    "floor": "floor",
    "trunc": "trunc",
    "rint": "rint",
    "nearbyint": "rint",
    "sqrt": "sqrt",
    "sqrt_rn": "sqrt",
    "copysign": "copysign",
}


def through(function: str) -> Rule:
    """A function of the C library."""

    def rule(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
        return _finished(code, operation, _library(code, function, _wide(code, operands)))

    return rule


def flushing(rule: Rule) -> Rule:
    """What the rule computes, of floats by instructions with `.ftz`."""

    def flush(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
        return flushed(code, rule(code, operation, [flushed(code, lanes) for lanes in operands]))

    return flush


def rsqrt(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
    """`math.rsqrt`."""
    return _finished(code, operation, _reciprocal_root(code, _wide(code, operands)))


def multiply_add(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
    """`math.fma`: product and sum in float64."""
    return _finished(code, operation, _fma(code, _wide(code, operands)))


def external(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
    """`tt.extern_elementwise`, by its symbol."""
    symbol = str(operation.attributes["symbol"]).removeprefix("__nv_").removeprefix("fast_")
    wide = _wide(code, operands)
    for name in (symbol, symbol.removesuffix("f")):
        if name in EXTERNAL:
            return _finished(code, operation, _library(code, EXTERNAL[name], wide))
        if name in _INTRINSICS:
            return _finished(code, operation, _intrinsic(code, _INTRINSICS[name], wide))
        if name == "rsqrt":
            return _finished(code, operation, _reciprocal_root(code, wide))
        if name == "div_rn":
            return _finished(code, operation, spread(code, wide, _divide, "double"))
        if name == "fma" and symbol != "fma":  # the product of float64 numbers is not exact in float64
            return _finished(code, operation, _fma(code, wide))
    raise CannotExecute(f"the external function {symbol} in native code")


def _wide(code: Assembly, operands: list[LaneValues]) -> list[LaneValues]:
    if any(lanes.kind not in {"float", "double"} for lanes in operands):
        raise CannotExecute("a mathematical function of integers in native code")
    return [resized(code, lanes, "double") for lanes in operands]


def _finished(code: Assembly, operation: Operation, made: LaneValues) -> LaneValues:
    element = operation.result_types[0].element
    return rounded(code, resized(code, made, register(element)), element)


def _library(code: Assembly, function: str, operands: list[LaneValues]) -> LaneValues:
    def emit(code: Assembly, kind: str, width: int, names: list[str]) -> str:
        del kind
        return _calls(code, function, width, names)

    return spread(code, operands, emit, "double")


def _calls(code: Assembly, function: str, width: int, names: list[str]) -> str:
    if not width:
        return code.call("double", function, *(("double", name) for name in names))
    made = "poison"
    for lane in range(width):
        parts = [code.value(f"extractelement <{width} x double> {name}, i64 {lane}") for name in names]
        one = code.call("double", function, *(("double", part) for part in parts))
        made = code.value(f"insertelement <{width} x double> {made}, double {one}, i64 {lane}")
    return made


def _intrinsic(code: Assembly, name: str, operands: list[LaneValues]) -> LaneValues:
    def emit(code: Assembly, kind: str, width: int, names: list[str]) -> str:
        whole = of(kind, width)
        return code.call(whole, f"llvm.{name}.{suffix(kind, width)}", *((whole, each) for each in names))

    return spread(code, operands, emit, "double")


def _divide(code: Assembly, kind: str, width: int, names: list[str]) -> str:
    return code.value(f"fdiv {of(kind, width)} {', '.join(names)}")


def _reciprocal_root(code: Assembly, operands: list[LaneValues]) -> LaneValues:
    one = LaneValues("double", "0x3FF0000000000000")
    return spread(code, [one, _intrinsic(code, "sqrt", operands)], _divide, "double")


def _fma(code: Assembly, operands: list[LaneValues]) -> LaneValues:
    def emit(code: Assembly, kind: str, width: int, names: list[str]) -> str:
        product = code.value(f"fmul {of(kind, width)} {names[0]}, {names[1]}")
        return code.value(f"fadd {of(kind, width)} {product}, {names[2]}")

    return spread(code, operands, emit, "double")
