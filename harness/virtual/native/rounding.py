"""Conversions between element types, with the roundings of `harness.virtual.numbers.elements`."""

from harness.errors import CannotExecute
from harness.virtual.native.lane_values import BITS, LaneValues, of, register, spread, suffix
from harness.virtual.native.llvm_text import Assembly
from harness.virtual.ttir.ir import Operation

FLOATS = frozenset({"float", "double"})
_SMALLEST_NORMAL = "0x3810000000000000"
"""2^-126, as LLVM writes a float."""


def rounded(code: Assembly, lanes: LaneValues, element: str) -> LaneValues:
    """Values carried for a TTIR element, rounded to what it can hold."""
    match element:
        case "bf16":
            return spread(code, [lanes], _through_bfloat16, "float")
        case "f16":
            return spread(code, [lanes], _through_half, "float")
        case _:
            return lanes


def flushed(code: Assembly, lanes: LaneValues) -> LaneValues:
    """Zeros of their sign for subnormal floats; doubles stay."""
    if lanes.kind != "float":
        return lanes

    def emit(code: Assembly, kind: str, width: int, names: list[str]) -> str:
        whole, typed, (value,) = of(kind, width), suffix(kind, width), names
        size = code.call(whole, f"llvm.fabs.{typed}", (whole, value))
        small = code.value(f"fcmp olt {whole} {size}, {_all(_SMALLEST_NORMAL, width, kind)}")
        zero = code.call(whole, f"llvm.copysign.{typed}", (whole, _all("0.0", width, kind)), (whole, value))
        return code.value(f"select {of('i1', width)} {small}, {whole} {zero}, {whole} {value}")

    return spread(code, [lanes], emit, "float")


def bfloat16_bits(code: Assembly, width: int, value: str) -> str:
    """The nearest bfloat16 of a float, in the upper half of an i32; a NaN stays one and becomes quiet."""
    kind = of("i32", width)
    bits = code.value(f"bitcast {of('float', width)} {value} to {kind}")
    upper = code.value(f"lshr {kind} {bits}, {_all('16', width)}")
    odd = code.value(f"and {kind} {upper}, {_all('1', width)}")
    half = code.value(f"add {kind} {odd}, {_all('32767', width)}")
    up = code.value(f"add {kind} {bits}, {half}")
    quiet = code.value(f"or {kind} {bits}, {_all('4194304', width)}")
    nan = code.value(f"fcmp uno {of('float', width)} {value}, {value}")
    chosen = code.value(f"select {of('i1', width)} {nan}, {kind} {quiet}, {kind} {up}")
    return code.value(f"and {kind} {chosen}, {_all('-65536', width)}")


def decoded(code: Assembly, raw: str, element: str, width: int) -> str:
    """Memory contents to carried values."""
    match element:
        case "bf16":
            wide = code.value(f"zext {of('i16', width)} {raw} to {of('i32', width)}")
            high = code.value(f"shl {of('i32', width)} {wide}, {_all('16', width)}")
            return code.value(f"bitcast {of('i32', width)} {high} to {of('float', width)}")
        case "f16":
            return code.value(f"fpext {of('half', width)} {raw} to {of('float', width)}")
        case "i1":
            return code.value(f"icmp ne {of('i8', width)} {raw}, {_all('0', width)}")
        case _:
            return raw


def encoded(code: Assembly, value: str, element: str, width: int) -> str:
    """Carried values to memory contents."""
    match element:
        case "bf16":
            bits = bfloat16_bits(code, width, value)
            low = code.value(f"lshr {of('i32', width)} {bits}, {_all('16', width)}")
            return code.value(f"trunc {of('i32', width)} {low} to {of('i16', width)}")
        case "f16":
            return code.value(f"fptrunc {of('float', width)} {value} to {of('half', width)}")
        case "i1":
            return code.value(f"zext {of('i1', width)} {value} to {of('i8', width)}")
        case _:
            return value


def converted(code: Assembly, operation: Operation, lanes: LaneValues) -> LaneValues:
    """`arith.extf`, `truncf`, `trunci`, `index_cast` and `tt.fp_to_fp`, to nearest."""
    if str(operation.attributes.get("rounding", "rtne")) not in {"rtne", "1"}:
        raise CannotExecute(f"rounding {operation.attributes['rounding']}")
    element = operation.result_types[0].element
    wanted = register(element)
    if lanes.kind == "double" and wanted == "float" and element != "f32":
        lanes = spread(code, [lanes], _to_odd, "float")
    return rounded(code, resized(code, lanes, wanted), element)


def resized(code: Assembly, lanes: LaneValues, wanted: str, *, signed: bool = True) -> LaneValues:
    """The same number in a wider or narrower type of its kind; integers are cut, floats rounded."""
    had = lanes.kind
    if had == wanted:
        return lanes
    if (had in FLOATS) != (wanted in FLOATS):
        raise CannotExecute(f"a conversion of {had} to {wanted}")
    if had in FLOATS:
        instruction = "fpext" if wanted == "double" else "fptrunc"
    elif BITS[had] > BITS[wanted]:
        instruction = "trunc"
        if lanes.step is not None and wanted != "i1":
            return LaneValues(wanted, code.value(f"trunc {had} {lanes.name} to {wanted}"), lanes.width, lanes.step)
    else:
        instruction = "sext" if signed else "zext"
        if signed and lanes.step is not None and abs(lanes.step) * (lanes.width - 1) < 1 << BITS[had]:
            return _wider_ramp(code, lanes, lanes.step, wanted)

    def emit(code: Assembly, kind: str, width: int, names: list[str]) -> str:
        return code.value(f"{instruction} {of(kind, width)} {names[0]} to {of(wanted, width)}")

    return spread(code, [lanes], emit, wanted)


def _wider_ramp(code: Assembly, lanes: LaneValues, step: int, wanted: str) -> LaneValues:
    """A ramp stays one as long as no lane of it wraps around: where one does, the machine has to look.

    Its lanes must be less than a whole turn apart: only then is its last one on the wrong side of its first.
    """
    last = code.value(f"add {lanes.kind} {lanes.name}, {step * (lanes.width - 1)}")
    turned = "slt" if step >= 0 else "sgt"
    code.doubt(code.value(f"icmp {turned} {lanes.kind} {last}, {lanes.name}"))
    first = code.value(f"sext {lanes.kind} {lanes.name} to {wanted}")
    return LaneValues(wanted, first, lanes.width, step)


def to_integer(code: Assembly, lanes: LaneValues, wanted: str, *, signed: bool) -> LaneValues:
    """As `harness.virtual.operations.arith.to_integer`."""
    name = "fptosi" if signed else "fptoui"
    bits = max(16, BITS[wanted])

    def emit(code: Assembly, kind: str, width: int, names: list[str]) -> str:
        given, whole = of(kind, width), of(f"i{bits}", width)
        function = f"llvm.{name}.sat.{suffix(f'i{bits}', width)}.{suffix(kind, width)}"
        made = code.call(whole, function, (given, names[0]))
        if kind == "double" or bits == 64:
            nan = code.value(f"fcmp uno {given} {names[0]}, {names[0]}")
            upper_bit = _all(str(-(1 << bits - 1)), width, f"i{bits}")
            made = code.value(f"select {of('i1', width)} {nan}, {whole} {upper_bit}, {whole} {made}")
        return made if bits == BITS[wanted] else code.value(f"trunc {whole} {made} to {of(wanted, width)}")

    return spread(code, [lanes], emit, wanted)


def from_integer(code: Assembly, lanes: LaneValues, element: str, *, signed: bool) -> LaneValues:
    """To the nearest that the element can hold, by way of its carrier."""
    wanted = register(element)
    instruction = "sitofp" if signed else "uitofp"

    def emit(code: Assembly, kind: str, width: int, names: list[str]) -> str:
        return code.value(f"{instruction} {of(kind, width)} {names[0]} to {of(wanted, width)}")

    return rounded(code, spread(code, [lanes], emit, wanted), element)


def _all(number: str, width: int, kind: str = "i32") -> str:
    return f"splat ({kind} {number})" if width else number


def _through_bfloat16(code: Assembly, kind: str, width: int, names: list[str]) -> str:
    bits = bfloat16_bits(code, width, names[0])
    return code.value(f"bitcast {of('i32', width)} {bits} to {of(kind, width)}")


def _through_half(code: Assembly, kind: str, width: int, names: list[str]) -> str:
    half = code.value(f"fptrunc {of(kind, width)} {names[0]} to {of('half', width)}")
    return code.value(f"fpext {of('half', width)} {half} to {of(kind, width)}")


def _to_odd(code: Assembly, kind: str, width: int, names: list[str]) -> str:
    """Float64 to float32 toward zero, the last bit set where that was inexact, so that rounding again is exact."""
    wide, narrow, bits, flag = of(kind, width), of("float", width), of("i32", width), of("i1", width)
    nearest = code.value(f"fptrunc {wide} {names[0]} to {narrow}")
    back = code.value(f"fpext {narrow} {nearest} to {wide}")
    sizes = [code.call(wide, f"llvm.fabs.{suffix(kind, width)}", (wide, name)) for name in (back, names[0])]
    beyond = code.value(f"zext {flag} {code.value(f'fcmp ogt {wide} {sizes[0]}, {sizes[1]}')} to {bits}")
    whole = code.value(f"bitcast {narrow} {nearest} to {bits}")
    cut = code.value(f"or {bits} {code.value(f'sub {bits} {whole}, {beyond}')}, {_all('1', width)}")
    infinity = "0x7FF0000000000000"
    finite = code.value(f"fcmp olt {wide} {sizes[1]}, {_all(infinity, width, kind)}")
    unequal = code.value(f"fcmp une {wide} {back}, {names[0]}")
    inexact = code.value(f"and {flag} {finite}, {unequal}")
    chosen = code.value(f"select {flag} {inexact}, {bits} {cut}, {bits} {whole}")
    return code.value(f"bitcast {bits} {chosen} to {narrow}")
