"""Conversions between element types, with the rounding of `harness.engines.virtual.numbers.elements`."""

from harness.engines.ttir.ir import Operation
from harness.engines.virtual.native.lane_values import (
    BITS,
    LaneValues,
    intrinsic_suffix,
    lanewise,
    register,
    vector_type,
)
from harness.engines.virtual.native.llvm_text import Assembly
from harness.engines.virtual.numbers.integer_conversions import converted_type
from harness.errors import CannotExecute
from harness.model.device import Vendor

FLOATS = frozenset({"float", "double"})
_SMALLEST_NORMAL = "0x3810000000000000"
"""2^-126, as LLVM writes a float."""


def rounded(code: Assembly, lanes: LaneValues, element: str) -> LaneValues:
    """Round carried values to the precision of a TTIR element."""
    match element:
        case "bf16":
            return lanewise(code, [lanes], _through_bfloat16, "float")
        case "f16":
            return lanewise(code, [lanes], _through_half, "float")
        case _:
            return lanes


def flushed(code: Assembly, lanes: LaneValues) -> LaneValues:
    """Replace subnormal floats by zeros of their sign; doubles are unchanged."""
    if lanes.kind != "float":
        return lanes

    def emit(code: Assembly, kind: str, width: int, names: list[str]) -> str:
        vector, suffix, (value,) = vector_type(kind, width), intrinsic_suffix(kind, width), names
        magnitude = code.call(vector, f"llvm.fabs.{suffix}", (vector, value))
        small = code.value(f"fcmp olt {vector} {magnitude}, {_literal(_SMALLEST_NORMAL, width, kind)}")
        zero = code.call(vector, f"llvm.copysign.{suffix}", (vector, _literal("0.0", width, kind)), (vector, value))
        return code.value(f"select {vector_type('i1', width)} {small}, {vector} {zero}, {vector} {value}")

    return lanewise(code, [lanes], emit, "float")


def bfloat16_bits(code: Assembly, width: int, value: str) -> str:
    """The nearest bfloat16 of a float, in the upper half of an i32; a NaN becomes quiet."""
    kind = vector_type("i32", width)
    bits = code.value(f"bitcast {vector_type('float', width)} {value} to {kind}")
    upper = code.value(f"lshr {kind} {bits}, {_literal('16', width)}")
    odd = code.value(f"and {kind} {upper}, {_literal('1', width)}")
    half = code.value(f"add {kind} {odd}, {_literal('32767', width)}")
    rounded_up = code.value(f"add {kind} {bits}, {half}")
    quiet = code.value(f"or {kind} {bits}, {_literal('4194304', width)}")
    nan = code.value(f"fcmp uno {vector_type('float', width)} {value}, {value}")
    chosen = code.value(f"select {vector_type('i1', width)} {nan}, {kind} {quiet}, {kind} {rounded_up}")
    return code.value(f"and {kind} {chosen}, {_literal('-65536', width)}")


def decoded(code: Assembly, raw: str, element: str, width: int) -> str:
    """Convert memory contents to carried values."""
    match element:
        case "bf16":
            wide = code.value(f"zext {vector_type('i16', width)} {raw} to {vector_type('i32', width)}")
            high = code.value(f"shl {vector_type('i32', width)} {wide}, {_literal('16', width)}")
            return code.value(f"bitcast {vector_type('i32', width)} {high} to {vector_type('float', width)}")
        case "f16":
            return code.value(f"fpext {vector_type('half', width)} {raw} to {vector_type('float', width)}")
        case "i1":
            return code.value(f"icmp ne {vector_type('i8', width)} {raw}, {_literal('0', width)}")
        case _:
            return raw


def encoded(code: Assembly, value: str, element: str, width: int) -> str:
    """Convert carried values to memory contents."""
    match element:
        case "bf16":
            bits = bfloat16_bits(code, width, value)
            low = code.value(f"lshr {vector_type('i32', width)} {bits}, {_literal('16', width)}")
            return code.value(f"trunc {vector_type('i32', width)} {low} to {vector_type('i16', width)}")
        case "f16":
            return code.value(f"fptrunc {vector_type('float', width)} {value} to {vector_type('half', width)}")
        case "i1":
            return code.value(f"zext {vector_type('i1', width)} {value} to {vector_type('i8', width)}")
        case _:
            return value


def converted(code: Assembly, operation: Operation, lanes: LaneValues) -> LaneValues:
    """`arith.extf`, `truncf`, `trunci`, `index_cast` and `tt.fp_to_fp`, to nearest."""
    if str(operation.attributes.get("rounding", "rtne")) not in {"rtne", "1"}:
        raise CannotExecute(f"rounding {operation.attributes['rounding']}")
    element = operation.result_types[0].element
    target = register(element)
    if lanes.kind == "double" and target == "float" and element != "f32":
        lanes = lanewise(code, [lanes], _to_odd, "float")
    return rounded(code, resized(code, lanes, target), element)


def resized(code: Assembly, lanes: LaneValues, target: str, *, signed: bool = True) -> LaneValues:
    """Convert to a wider or narrower type; integers are truncated, floats rounded."""
    source = lanes.kind
    if source == target:
        return lanes
    if (source in FLOATS) != (target in FLOATS):
        raise CannotExecute(f"a conversion of {source} to {target}")
    if source in FLOATS:
        instruction = "fpext" if target == "double" else "fptrunc"
    elif BITS[source] > BITS[target]:
        instruction = "trunc"
        if lanes.step is not None and target != "i1":
            return LaneValues(target, code.value(f"trunc {source} {lanes.name} to {target}"), lanes.width, lanes.step)
    else:
        instruction = "sext" if signed else "zext"
        if signed and lanes.step is not None and abs(lanes.step) * (lanes.width - 1) < 1 << BITS[source]:
            return _wider_ramp(code, lanes, lanes.step, target)

    def emit(code: Assembly, kind: str, width: int, names: list[str]) -> str:
        return code.value(f"{instruction} {vector_type(kind, width)} {names[0]} to {vector_type(target, width)}")

    return lanewise(code, [lanes], emit, target)


def _wider_ramp(code: Assembly, lanes: LaneValues, step: int, target: str) -> LaneValues:
    """Widen a ramp by widening its first lane; if a lane wraps around, request a bailout.

    The ramp must span less than the type's range.  Only then does a wrap show in the order of first and last lane.
    """
    last = code.value(f"add {lanes.kind} {lanes.name}, {step * (lanes.width - 1)}")
    turned = "slt" if step >= 0 else "sgt"
    code.request_bailout(code.value(f"icmp {turned} {lanes.kind} {last}, {lanes.name}"))
    first = code.value(f"sext {lanes.kind} {lanes.name} to {target}")
    return LaneValues(target, first, lanes.width, step)


def to_integer(code: Assembly, lanes: LaneValues, operation: Operation, *, signed: bool) -> LaneValues:
    """Convert to an integer with the semantics of `harness.engines.virtual.operations.arith.to_integer`."""
    target = register(operation.result_types[0].element)
    converted = converted_type(code.vendor, BITS[target], signed=signed)
    name, bits = "fptosi" if converted.signed else "fptoui", converted.bits

    def emit(code: Assembly, kind: str, width: int, names: list[str]) -> str:
        source, vector = vector_type(kind, width), vector_type(f"i{bits}", width)
        function = f"llvm.{name}.sat.{intrinsic_suffix(f'i{bits}', width)}.{intrinsic_suffix(kind, width)}"
        result = code.call(vector, function, (source, names[0]))
        if bits == 64 or (kind == "double" and code.vendor is Vendor.NVIDIA):
            nan = code.value(f"fcmp uno {source} {names[0]}, {names[0]}")
            upper_bit = _literal(str(-(1 << bits - 1)), width, f"i{bits}")
            result = code.value(f"select {vector_type('i1', width)} {nan}, {vector} {upper_bit}, {vector} {result}")
        if bits == BITS[target]:
            return result
        return code.value(f"trunc {vector} {result} to {vector_type(target, width)}")

    return lanewise(code, [lanes], emit, target)


def from_integer(code: Assembly, lanes: LaneValues, element: str, *, signed: bool) -> LaneValues:
    """Convert an integer to its carrier, then round to the element."""
    target = register(element)
    instruction = "sitofp" if signed else "uitofp"

    def emit(code: Assembly, kind: str, width: int, names: list[str]) -> str:
        return code.value(f"{instruction} {vector_type(kind, width)} {names[0]} to {vector_type(target, width)}")

    return rounded(code, lanewise(code, [lanes], emit, target), element)


def _literal(number: str, width: int, kind: str = "i32") -> str:
    return f"splat ({kind} {number})" if width else number


def _through_bfloat16(code: Assembly, kind: str, width: int, names: list[str]) -> str:
    bits = bfloat16_bits(code, width, names[0])
    return code.value(f"bitcast {vector_type('i32', width)} {bits} to {vector_type(kind, width)}")


def _through_half(code: Assembly, kind: str, width: int, names: list[str]) -> str:
    half = code.value(f"fptrunc {vector_type(kind, width)} {names[0]} to {vector_type('half', width)}")
    return code.value(f"fpext {vector_type('half', width)} {half} to {vector_type(kind, width)}")


def _to_odd(code: Assembly, kind: str, width: int, names: list[str]) -> str:
    """Round float64 to float32 toward zero and set the last bit if inexact; rounding again is then correct."""
    wide, narrow = vector_type(kind, width), vector_type("float", width)
    bits, flag = vector_type("i32", width), vector_type("i1", width)
    nearest = code.value(f"fptrunc {wide} {names[0]} to {narrow}")
    back = code.value(f"fpext {narrow} {nearest} to {wide}")
    sizes = [code.call(wide, f"llvm.fabs.{intrinsic_suffix(kind, width)}", (wide, name)) for name in (back, names[0])]
    beyond = code.value(f"zext {flag} {code.value(f'fcmp ogt {wide} {sizes[0]}, {sizes[1]}')} to {bits}")
    vector = code.value(f"bitcast {narrow} {nearest} to {bits}")
    cut = code.value(f"or {bits} {code.value(f'sub {bits} {vector}, {beyond}')}, {_literal('1', width)}")
    infinity = "0x7FF0000000000000"
    finite = code.value(f"fcmp olt {wide} {sizes[1]}, {_literal(infinity, width, kind)}")
    unequal = code.value(f"fcmp une {wide} {back}, {names[0]}")
    inexact = code.value(f"and {flag} {finite}, {unequal}")
    chosen = code.value(f"select {flag} {inexact}, {bits} {cut}, {bits} {vector}")
    return code.value(f"bitcast {bits} {chosen} to {narrow}")
