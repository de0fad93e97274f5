"""Functions computed in float64, by the C library of the process, and rounded once."""

from collections.abc import Callable

from harness.engines.ttir.ir import Operation
from harness.engines.virtual.native.lane_values import LaneValues, intrinsic_suffix, lanewise, register, vector_type
from harness.engines.virtual.native.llvm_text import Assembly
from harness.engines.virtual.native.rounding import flushed, resized, rounded
from harness.engines.virtual.operations.libdevice_names import libdevice_name
from harness.errors import CannotExecute

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
"""C library functions, by libdevice's name without prefix and type suffix."""
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


def library_function(function: str) -> Rule:
    """Return the rule of a C library function."""

    def rule(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
        return _rounded_to_result(code, operation, _call_library(code, function, _as_doubles(code, operands)))

    return rule


def flushing(rule: Rule) -> Rule:
    """Flush subnormal float32 operands and results of a rule, as PTX instructions with `.ftz` do."""

    def flush(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
        return flushed(code, rule(code, operation, [flushed(code, lanes) for lanes in operands]))

    return flush


def rsqrt(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
    """`math.rsqrt`."""
    return _rounded_to_result(code, operation, _reciprocal_root(code, _as_doubles(code, operands)))


def multiply_add(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
    """`math.fma`: product and sum in float64."""
    return _rounded_to_result(code, operation, _fma(code, _as_doubles(code, operands)))


def external(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
    """`tt.extern_elementwise`, by symbol."""
    symbol = libdevice_name(str(operation.attributes["symbol"])).removeprefix("fast_")
    doubles = _as_doubles(code, operands)
    for name in (symbol, symbol.removesuffix("f")):
        if name in EXTERNAL:
            return _rounded_to_result(code, operation, _call_library(code, EXTERNAL[name], doubles))
        if name in _INTRINSICS:
            return _rounded_to_result(code, operation, _intrinsic(code, _INTRINSICS[name], doubles))
        if name == "rsqrt":
            return _rounded_to_result(code, operation, _reciprocal_root(code, doubles))
        if name == "div_rn":
            return _rounded_to_result(code, operation, lanewise(code, doubles, _divide, "double"))
        if name == "fma" and symbol != "fma":  # `fma` is float64, whose products float64 cannot hold
            return _rounded_to_result(code, operation, _fma(code, doubles))
    raise CannotExecute(f"the external function {symbol} in native code")


def _as_doubles(code: Assembly, operands: list[LaneValues]) -> list[LaneValues]:
    if any(lanes.kind not in {"float", "double"} for lanes in operands):
        raise CannotExecute("a mathematical function of integers in native code")
    return [resized(code, lanes, "double") for lanes in operands]


def _rounded_to_result(code: Assembly, operation: Operation, result: LaneValues) -> LaneValues:
    element = operation.result_types[0].element
    return rounded(code, resized(code, result, register(element)), element)


def _call_library(code: Assembly, function: str, operands: list[LaneValues]) -> LaneValues:
    def emit(code: Assembly, kind: str, width: int, names: list[str]) -> str:
        del kind
        return _call_per_lane(code, function, width, names)

    return lanewise(code, operands, emit, "double")


def _call_per_lane(code: Assembly, function: str, width: int, names: list[str]) -> str:
    if not width:
        return code.call("double", function, *(("double", name) for name in names))
    result = "poison"
    for lane in range(width):
        parts = [code.value(f"extractelement <{width} x double> {name}, i64 {lane}") for name in names]
        value = code.call("double", function, *(("double", part) for part in parts))
        result = code.value(f"insertelement <{width} x double> {result}, double {value}, i64 {lane}")
    return result


def _intrinsic(code: Assembly, name: str, operands: list[LaneValues]) -> LaneValues:
    def emit(code: Assembly, kind: str, width: int, names: list[str]) -> str:
        vector = vector_type(kind, width)
        function = f"llvm.{name}.{intrinsic_suffix(kind, width)}"
        return code.call(vector, function, *((vector, operand) for operand in names))

    return lanewise(code, operands, emit, "double")


def _divide(code: Assembly, kind: str, width: int, names: list[str]) -> str:
    return code.value(f"fdiv {vector_type(kind, width)} {', '.join(names)}")


def _reciprocal_root(code: Assembly, operands: list[LaneValues]) -> LaneValues:
    value = LaneValues("double", "0x3FF0000000000000")
    return lanewise(code, [value, _intrinsic(code, "sqrt", operands)], _divide, "double")


def _fma(code: Assembly, operands: list[LaneValues]) -> LaneValues:
    def emit(code: Assembly, kind: str, width: int, names: list[str]) -> str:
        product = code.value(f"fmul {vector_type(kind, width)} {names[0]}, {names[1]}")
        return code.value(f"fadd {vector_type(kind, width)} {product}, {names[2]}")

    return lanewise(code, operands, emit, "double")
