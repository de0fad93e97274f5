"""Elementwise operations of the `arith` and `math` dialects, with the GPU's integer semantics.

Integers wrap.  Division and remainder round toward zero.  Shifts by the width or more give what PTX gives.
Floating-point results are rounded to their type after every operation.  One entry in `HANDLERS` adds an operation.
"""

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from harness.engines.torch.torch_seam import plain_torch
from harness.engines.ttir.ir import Operation, Type
from harness.engines.virtual.machine import Handler, Machine, Value
from harness.engines.virtual.numbers import float8
from harness.engines.virtual.numbers.elements import NARROW_FLOATS, Array, carrier, flushed, rounded, unsigned
from harness.engines.virtual.numbers.integer_conversions import converted_type
from harness.errors import CannotExecute
from harness.model.device import Vendor, vendor_of

Elementwise = Callable[..., Array]


def array(value: Value) -> Array:
    """Return a value that must be a number or a block of numbers.

    Raises:
        CannotExecute: the value is a pointer.
    """
    if not isinstance(value, np.ndarray):
        raise CannotExecute("a pointer where a number is expected")
    return value


# --- how functions on arrays become handlers ---


def floating(function: Elementwise) -> Handler:
    """Return the handler of a floating-point operation: computed in the carrier, rounded to the result type."""

    def handle(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
        del machine
        element = operation.result_types[0].element
        if element in float8.FORMATS:
            raise CannotExecute(f"{operation.name} of {element}, which Triton does not compile: convert it first,")
        result = function(*[array(frame[slot]) for slot in operation.operands])
        if result.dtype != carrier(element):
            result = result.astype(carrier(element))
        return rounded(result, element) if element in NARROW_FLOATS else result

    return handle


def unrounded(function: Elementwise) -> Handler:
    """Return the handler of a floating-point operation whose results have the operands' type exactly, 8 bits too."""

    def handle(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
        del machine
        return function(*[array(frame[slot]) for slot in operation.operands])

    return handle


def integral(function: Elementwise) -> Handler:
    """Return the handler of an integer operation, which wraps in the width of the result type."""

    def handle(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
        del machine
        result = function(*[array(frame[slot]) for slot in operation.operands])
        dtype = carrier(operation.result_types[0].element)
        return result if result.dtype == dtype else result.astype(dtype)

    return handle


def as_unsigned(function: Elementwise) -> Elementwise:
    """Apply a function to the operands' bits as unsigned integers; the result has the operands' own type again."""

    def apply(*operands: Array) -> Array:
        signed = operands[0].dtype
        result = function(*[unsigned(operand) for operand in operands])
        return result if result.dtype == np.bool_ else result.view(signed)

    return apply


# --- integers ---


def divide(left: Array, right: Array) -> Array:
    """Quotient rounded toward zero; a zero divisor gives all ones, as on NVIDIA GPUs."""
    # NumPy's // rounds down: add one where the quotient is negative and inexact.
    safe = np.where(right == 0, 1, right).astype(right.dtype)
    quotient = left // safe
    inexact = (quotient * safe != left) & ((left < 0) != (safe < 0))
    return np.where(right == 0, np.array(-1, left.dtype), quotient + inexact.astype(left.dtype))


def divide_unsigned(left: Array, right: Array) -> Array:
    """Quotient of unsigned operands; a zero divisor gives all ones, as on NVIDIA GPUs."""
    return np.where(right == 0, ~np.zeros_like(left), left // np.where(right == 0, 1, right).astype(right.dtype))


def remainder(left: Array, right: Array) -> Array:
    """Remainder with the dividend's sign; a zero divisor gives the dividend."""
    safe = np.where(right == 0, 1, right).astype(right.dtype)
    return np.where(right == 0, left, np.fmod(left, safe))


def shift_left(left: Array, right: Array) -> Array:
    """Shifts by the width or more give zero."""
    bits = left.dtype.itemsize * 8
    amount = unsigned(right)
    return np.where(amount < bits, left << np.where(amount < bits, right, 0), np.zeros(1, left.dtype))


def shift_right_signed(left: Array, right: Array) -> Array:
    """Shifts by the width or more leave only the sign."""
    bits = left.dtype.itemsize * 8
    return left >> np.where(unsigned(right) < bits, right, bits - 1).astype(right.dtype)


def shift_right_unsigned(left: Array, right: Array) -> Array:
    """Shifts of unsigned operands; by the width or more they give zero."""
    bits = left.dtype.itemsize * 8
    return np.where(right < bits, left >> np.where(right < bits, right, 0).astype(right.dtype), np.zeros(1, left.dtype))


def _with_i1_form(function: Elementwise, on_i1: Elementwise) -> Elementwise:
    """Use `on_i1` for i1 operands: as a signed i1, true is minus one, which NumPy's booleans do not follow."""
    return lambda left, right: (on_i1 if left.dtype == np.bool_ else function)(left, right)


def _by_sign(function: Elementwise) -> Elementwise:
    """A signed comparison; i1 operands swap sides, since true is minus one there."""
    return lambda left, right: function(right, left) if left.dtype == np.bool_ else function(left, right)


def multiply_high(left: Array, right: Array) -> Array:
    """The upper half of the full product of integers."""
    if left.dtype.itemsize != 4:  # 64 bits: NumPy has no wider type, so Python integers compute each product
        return np.vectorize(lambda a, b: (int(a) * int(b)) >> 64, otypes=[left.dtype])(left, right)
    wide = np.uint64 if left.dtype.kind == "u" else np.int64
    return (left.astype(wide) * right.astype(wide) >> 32).astype(left.dtype)


_COMPARISONS: dict[str, Elementwise] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": _by_sign(np.less),
    "sle": _by_sign(np.less_equal),
    "sgt": _by_sign(np.greater),
    "sge": _by_sign(np.greater_equal),
    "ult": as_unsigned(np.less),
    "ule": as_unsigned(np.less_equal),
    "ugt": as_unsigned(np.greater),
    "uge": as_unsigned(np.greater_equal),
}


def compare_integers(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`arith.cmpi`."""
    del machine
    left, right = (array(frame[slot]) for slot in operation.operands)
    return _COMPARISONS[operation.keywords[0]](left, right)


def _ordered(function: Elementwise) -> Elementwise:
    return lambda left, right: function(left, right) & ~(np.isnan(left) | np.isnan(right))


def _unordered(function: Elementwise) -> Elementwise:
    return lambda left, right: function(left, right) | np.isnan(left) | np.isnan(right)


_FLOAT_COMPARISONS: dict[str, Elementwise] = {
    "oeq": np.equal,
    "ogt": np.greater,
    "oge": np.greater_equal,
    "olt": np.less,
    "ole": np.less_equal,
    "one": _ordered(np.not_equal),
    "ord": lambda left, right: ~(np.isnan(left) | np.isnan(right)),
    "ueq": _unordered(np.equal),
    "ugt": _unordered(np.greater),
    "uge": _unordered(np.greater_equal),
    "ult": _unordered(np.less),
    "ule": _unordered(np.less_equal),
    "une": np.not_equal,
    "uno": lambda left, right: np.isnan(left) | np.isnan(right),
}


def compare_floats(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`arith.cmpf`."""
    del machine
    left, right = (array(frame[slot]) for slot in operation.operands)
    return _FLOAT_COMPARISONS[operation.keywords[0]](left, right)


# --- constants, selection, conversions ---


def constant(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`arith.constant`: one number for the whole block, or every element of a dense block."""
    del machine, frame
    kind = operation.result_types[0]
    text = str(operation.attributes["value"])
    rank = len(kind.shape)
    if not text.startswith("dense<"):
        return np.full((1,) * (1 + rank), literal(text, kind), carrier(kind.element))
    inner = text[len("dense<") : -1].strip()
    if inner.startswith("["):
        numbers = [literal(part, kind) for part in re.findall(r"[^\[\],\s]+", inner)]
        return np.array(numbers, carrier(kind.element)).reshape(1, *kind.shape)
    return np.full((1,) * (1 + rank), literal(inner, kind), carrier(kind.element))


def literal(text: str, kind: Type) -> Any:
    """The number that MLIR prints as `text`; a hexadecimal float is a bit pattern.

    MLIR prints six digits if they determine the number: 0.69921875 in bfloat16 is 6.992180e-01.
    """
    if text in {"true", "false"}:
        return text == "true"
    if kind.element.startswith(("f", "bf")):
        if text.startswith("0x"):
            return _float_from_bits(int(text, 16), kind.element)
        number = np.array([float(text)], carrier(kind.element))
        return rounded(number, kind.element)[0]
    value = int(text, 0)
    bits = max(kind.bits, 1)
    # MLIR may print an integer unsigned: wrap it into the signed range.
    return bool(value) if kind.element == "i1" else (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _float_from_bits(bits: int, element: str) -> float:
    if element == "f64":
        return float(struct.unpack("<d", struct.pack("<Q", bits))[0])
    if element == "f16":
        return float(struct.unpack("<e", struct.pack("<H", bits))[0])
    if element == "bf16":
        bits <<= 16
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def select(machine: Machine, operation: Operation, frame: list[Value]) -> Value:
    """`arith.select`."""
    condition, left, right = (frame[slot] for slot in operation.operands)
    return machine.select(array(condition), left, right)


def to_integer(*, signed: bool) -> Handler:
    """Return the handler of `arith.fptosi` or `fptoui`: toward zero, saturating as the GPU's instruction does.

    The instruction's type (`converted_type`) may be wider; the result keeps its lower bits.  NaN becomes zero.  From
    float64, or to 64 bits, an NVIDIA GPU makes it the value with only the highest bit set.
    """

    def handle(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
        operand = array(frame[operation.operands[0]])
        truncated = np.trunc(operand.astype(np.float64))
        dtype = np.dtype(carrier(operation.result_types[0].element))
        source, vendor = operation.operand_types[0].element, vendor_of(machine.arch)
        converted = converted_type(vendor, 8 * dtype.itemsize, signed=signed)
        size = converted.bits // 8
        limits = np.iinfo(f"{'i' if converted.signed else 'u'}{size}")
        is_nan, too_large = np.isnan(truncated), truncated >= float(limits.max)  # float64 cannot hold the largest i64
        clamped = np.maximum(np.where(is_nan | too_large, 0.0, truncated), float(limits.min))
        result = np.where(too_large, np.array(limits.max, limits.dtype), clamped.astype(limits.dtype))
        if size == 8 or (source == "f64" and vendor is Vendor.NVIDIA):
            result = np.where(is_nan, np.array(1 << 8 * size - 1, f"u{size}").view(limits.dtype), result)
        return result.astype(dtype)

    return handle


def from_integer(*, signed: bool) -> Handler:
    """Return the handler of `arith.sitofp` or `uitofp`."""

    def handle(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
        del machine
        element = operation.result_types[0].element
        value = array(frame[operation.operands[0]])
        if value.dtype == np.bool_:
            result = value.astype(carrier(element))
            return -result if signed else result
        return rounded((value if signed else unsigned(value)).astype(carrier(element)), element)

    return handle


def extend(*, signed: bool) -> Handler:
    """Return the handler of `arith.extsi` or `extui`; a true i1 sign-extends to minus one."""

    def handle(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
        del machine
        dtype = carrier(operation.result_types[0].element)
        value = array(frame[operation.operands[0]])
        if value.dtype == np.bool_:
            return -value.astype(dtype) if signed else value.astype(dtype)
        return (value if signed else unsigned(value)).astype(dtype)

    return handle


# --- mathematics ---


def clamp(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.clampf`: a NaN stays with `propagateNan = all`; otherwise it becomes the lower bound."""
    del machine
    value, low, high = (array(frame[slot]) for slot in operation.operands)
    result = np.fmin(np.fmax(value, low), high)
    propagates = str(operation.attributes.get("propagateNan", "none")) in {
        "all",
        "65535",
    }  # the name, or its number as an integer attribute
    return np.where(np.isnan(value), value, result) if propagates else result


def _erf(value: Array) -> Array:
    with plain_torch():  # whoever watches what a library does with torch does not see a kernel's arithmetic
        return torch.erf(torch.from_numpy(np.ascontiguousarray(value).astype(np.float64))).numpy()


def _in_float64(function: Elementwise) -> Elementwise:
    """Compute in float64; the handler rounds once.  The GPU's approximation is within a few ulps of that."""

    def apply(*operands: Array) -> Array:
        return function(*[operand.astype(np.float64) for operand in operands])

    return apply


def _flushing_subnormals(function: Elementwise) -> Elementwise:
    """Flush subnormal float32 operands and results to zero, as PTX instructions with `.ftz` do.

    Triton 3.6 and 3.9 compile these operations to such instructions for NVIDIA GPUs.
    """

    def apply(value: Array) -> Array:
        result = function(flushed(value))
        return flushed(result.astype(np.float32)) if value.dtype == np.float32 else result

    return apply


HANDLERS: Mapping[str, Handler] = {
    "arith.constant": constant,
    "arith.select": select,
    "arith.cmpi": compare_integers,
    "arith.cmpf": compare_floats,
    "arith.addi": integral(_with_i1_form(np.add, np.bitwise_xor)),
    "arith.subi": integral(_with_i1_form(np.subtract, np.bitwise_xor)),
    "arith.muli": integral(np.multiply),
    "arith.divsi": integral(divide),
    "arith.remsi": integral(remainder),
    "arith.divui": integral(as_unsigned(divide_unsigned)),
    "arith.remui": integral(as_unsigned(remainder)),
    "arith.ceildivsi": integral(lambda left, right: -((-left) // right)),
    "arith.floordivsi": integral(np.floor_divide),
    "arith.andi": integral(np.bitwise_and),
    "arith.ori": integral(np.bitwise_or),
    "arith.xori": integral(np.bitwise_xor),
    "arith.shli": integral(shift_left),
    "arith.shrsi": integral(shift_right_signed),
    "arith.shrui": integral(as_unsigned(shift_right_unsigned)),
    "arith.minsi": integral(_with_i1_form(np.minimum, np.bitwise_or)),
    "arith.maxsi": integral(_with_i1_form(np.maximum, np.bitwise_and)),
    "arith.minui": integral(as_unsigned(np.minimum)),
    "arith.maxui": integral(as_unsigned(np.maximum)),
    "tt.mulhiui": integral(as_unsigned(multiply_high)),
    "arith.extsi": extend(signed=True),
    "arith.extui": extend(signed=False),
    "arith.sitofp": from_integer(signed=True),
    "arith.uitofp": from_integer(signed=False),
    "arith.fptosi": to_integer(signed=True),
    "arith.fptoui": to_integer(signed=False),
    "arith.addf": floating(np.add),
    "arith.subf": floating(np.subtract),
    "arith.mulf": floating(np.multiply),
    "arith.divf": floating(np.divide),
    "tt.precise_divf": floating(np.divide),
    "tt.approx_divf": floating(np.divide),
    "arith.remf": floating(np.fmod),
    "arith.negf": floating(np.negative),
    "arith.maxnumf": floating(np.fmax),
    "arith.minnumf": floating(np.fmin),
    "arith.maximumf": floating(np.maximum),
    "arith.minimumf": floating(np.minimum),
    "tt.clampf": clamp,
    "math.absf": unrounded(np.abs),
    "math.absi": integral(np.abs),
    "math.exp": floating(_in_float64(np.exp)),
    "math.exp2": floating(_flushing_subnormals(_in_float64(np.exp2))),
    "math.log": floating(_in_float64(np.log)),
    "math.log2": floating(_in_float64(np.log2)),
    "math.sqrt": floating(_flushing_subnormals(np.sqrt)),
    "tt.precise_sqrt": floating(np.sqrt),
    "math.rsqrt": floating(_flushing_subnormals(_in_float64(lambda value: 1 / np.sqrt(value)))),
    "math.sin": floating(_flushing_subnormals(_in_float64(np.sin))),
    "math.cos": floating(_in_float64(np.cos)),
    "math.tanh": floating(_in_float64(np.tanh)),
    "math.erf": floating(_flushing_subnormals(_erf)),
    "math.floor": floating(_flushing_subnormals(np.floor)),
    "math.ceil": floating(_flushing_subnormals(np.ceil)),
    "math.roundeven": floating(np.rint),
    "math.fma": floating(_in_float64(lambda left, right, addend: left * right + addend)),
}
