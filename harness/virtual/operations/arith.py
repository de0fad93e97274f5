"""`arith` and `math`: element by element, with the GPU's integer semantics.

Integers wrap, division and remainder go toward zero, shifts by the width or more give what PTX gives.  Floating-point
results are rounded to their type after every operation.  One entry in `HANDLERS` adds an operation.
"""

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from harness.errors import CannotExecute
from harness.virtual.machine import Handler, Machine, Value
from harness.virtual.numbers.elements import NARROW_FLOATS, Array, carrier, flushed, rounded, unsigned
from harness.virtual.ttir.ir import Operation, Type

Elementwise = Callable[..., Array]


def array(value: Value) -> Array:
    """A value that must be a number or a block of numbers."""
    if not isinstance(value, np.ndarray):
        raise CannotExecute("a pointer where a number is expected")
    return value


# --- how functions on arrays become handlers ---


def floating(function: Elementwise) -> Handler:
    """A floating-point operation: computed in the carrier, rounded to the result type."""

    def handle(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
        del machine
        element = operation.result_types[0].element
        made = function(*[array(frame[slot]) for slot in operation.operands])
        if made.dtype != carrier(element):
            made = made.astype(carrier(element))
        return rounded(made, element) if element in NARROW_FLOATS else made

    return handle


def integral(function: Elementwise) -> Handler:
    """An integer operation: wraps around in the width of the result type."""

    def handle(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
        del machine
        made = function(*[array(frame[slot]) for slot in operation.operands])
        wanted = carrier(operation.result_types[0].element)
        return made if made.dtype == wanted else made.astype(wanted)

    return handle


def as_unsigned(function: Elementwise) -> Elementwise:
    """The same function on the operands' bits read as unsigned integers."""

    def apply(*operands: Array) -> Array:
        signed = operands[0].dtype
        made = function(*[unsigned(operand) for operand in operands])
        return made if made.dtype == np.bool_ else made.view(signed)

    return apply


# --- integers ---


def divide(left: Array, right: Array) -> Array:
    """Quotient rounded toward zero; a zero divisor gives all ones, as on NVIDIA GPUs."""
    safe = np.where(right == 0, 1, right).astype(right.dtype)
    quotient = left // safe
    inexact = (quotient * safe != left) & ((left < 0) != (safe < 0))
    return np.where(right == 0, np.array(-1, left.dtype), quotient + inexact.astype(left.dtype))


def divide_unsigned(left: Array, right: Array) -> Array:
    """Quotient; a zero divisor gives all ones, as on NVIDIA GPUs.  The operands are unsigned already."""
    return np.where(right == 0, ~np.zeros_like(left), left // np.where(right == 0, 1, right).astype(right.dtype))


def remainder(left: Array, right: Array) -> Array:
    """Remainder with the dividend's sign; by zero it is the dividend."""
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
    """Shifts by the width or more give zero; the operands are unsigned already."""
    bits = left.dtype.itemsize * 8
    return np.where(right < bits, left >> np.where(right < bits, right, 0).astype(right.dtype), np.zeros(1, left.dtype))


def _or_bits(function: Elementwise, of_bits: Elementwise) -> Elementwise:
    """A function of integers, and what it is for an i1, whose true is minus one when it has a sign."""
    return lambda left, right: (of_bits if left.dtype == np.bool_ else function)(left, right)


def _signed(function: Elementwise) -> Elementwise:
    """Comparisons by sign: a true i1 is minus one."""
    return lambda left, right: function(right, left) if left.dtype == np.bool_ else function(left, right)


def multiply_high(left: Array, right: Array) -> Array:
    """The upper half of the full product of 32-bit integers."""
    if left.dtype.itemsize != 4:
        return np.vectorize(lambda a, b: (int(a) * int(b)) >> 64, otypes=[left.dtype])(left, right)
    wide = np.uint64 if left.dtype.kind == "u" else np.int64
    return (left.astype(wide) * right.astype(wide) >> 32).astype(left.dtype)


_COMPARISONS: dict[str, Elementwise] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": _signed(np.less),
    "sle": _signed(np.less_equal),
    "sgt": _signed(np.greater),
    "sge": _signed(np.greater_equal),
    "ult": as_unsigned(np.less),
    "ule": as_unsigned(np.less_equal),
    "ugt": as_unsigned(np.greater),
    "uge": as_unsigned(np.greater_equal),
}


def compare_integers(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`arith.cmpi`."""
    del machine
    left, right = (array(frame[slot]) for slot in operation.operands)
    return _COMPARISONS[operation.words[0]](left, right)


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
    return _FLOAT_COMPARISONS[operation.words[0]](left, right)


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
    """A number as MLIR prints it; hexadecimal floats are bit patterns."""
    if text in {"true", "false"}:
        return text == "true"
    if kind.element.startswith(("f", "bf")):
        if text.startswith("0x"):
            return _float_of_bits(int(text, 16), kind.element)
        return float(text)
    value = int(text, 0)
    bits = max(kind.bits, 1)
    return bool(value) if kind.element == "i1" else (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _float_of_bits(bits: int, element: str) -> float:
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
    """`arith.fptosi` and `fptoui`: toward zero, saturating as PTX's cvt does.

    That makes 16 bits at least, of which a result of one byte keeps the lower; and zero of NaN, but the upper bit alone
    where it comes from float64 or goes to 64 bits.
    """

    def handle(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
        del machine
        given = array(frame[operation.operands[0]])
        value = np.trunc(given.astype(np.float64))
        wanted = np.dtype(carrier(operation.result_types[0].element))
        size = max(2, wanted.itemsize)
        range_of = np.iinfo(f"{'i' if signed else 'u'}{size}")
        nan, beyond = np.isnan(value), value >= float(range_of.max)  # no float64 is the largest i64: compare floats
        low = np.maximum(np.where(nan | beyond, 0.0, value), float(range_of.min))
        made = np.where(beyond, np.array(range_of.max, range_of.dtype), low.astype(range_of.dtype))
        if given.dtype == np.float64 or size == 8:
            made = np.where(nan, np.array(1 << 8 * size - 1, f"u{size}").view(range_of.dtype), made)
        return made.astype(wanted)

    return handle


def from_integer(*, signed: bool) -> Handler:
    """`arith.sitofp` and `uitofp`."""

    def handle(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
        del machine
        element = operation.result_types[0].element
        value = array(frame[operation.operands[0]])
        if value.dtype == np.bool_:
            made = value.astype(carrier(element))
            return -made if signed else made
        return rounded((value if signed else unsigned(value)).astype(carrier(element)), element)

    return handle


def extend(*, signed: bool) -> Handler:
    """`arith.extsi` and `extui`; a true i1 sign-extends to minus one."""

    def handle(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
        del machine
        wanted = carrier(operation.result_types[0].element)
        value = array(frame[operation.operands[0]])
        if value.dtype == np.bool_:
            return -value.astype(wanted) if signed else value.astype(wanted)
        return (value if signed else unsigned(value)).astype(wanted)

    return handle


# --- mathematics ---


def minimum_number(left: Array, right: Array) -> Array:
    """A NaN operand loses."""
    return np.fmin(left, right)


def clamp(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.clampf`: with `propagateNan = all` a NaN stays, else it becomes the lower bound."""
    del machine
    value, low, high = (array(frame[slot]) for slot in operation.operands)
    made = np.fmin(np.fmax(value, low), high)
    keeps = str(operation.attributes.get("propagateNan", "none")) in {"all", "65535"}
    return np.where(np.isnan(value), value, made) if keeps else made


def _round_half_even(value: Array) -> Array:
    return np.rint(value)


def _erf(value: Array) -> Array:
    return torch.erf(torch.from_numpy(np.ascontiguousarray(value).astype(np.float64))).numpy()


def _wide(function: Elementwise) -> Elementwise:
    """Computed in float64 and rounded once: the truth that the GPU's approximation stays within a few ulps of."""

    def apply(*operands: Array) -> Array:
        return function(*[operand.astype(np.float64) for operand in operands])

    return apply


def _flushing(function: Elementwise) -> Elementwise:
    """Of float32, one that Triton's builds for NVIDIA's GPUs compute by instructions with `.ftz` (3.6 and 3.9)."""

    def apply(value: Array) -> Array:
        made = function(flushed(value))
        return flushed(made.astype(np.float32)) if value.dtype == np.float32 else made

    return apply


HANDLERS: Mapping[str, Handler] = {
    "arith.constant": constant,
    "arith.select": select,
    "arith.cmpi": compare_integers,
    "arith.cmpf": compare_floats,
    "arith.addi": integral(_or_bits(np.add, np.bitwise_xor)),
    "arith.subi": integral(_or_bits(np.subtract, np.bitwise_xor)),
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
    "arith.minsi": integral(_or_bits(np.minimum, np.bitwise_or)),
    "arith.maxsi": integral(_or_bits(np.maximum, np.bitwise_and)),
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
    "arith.minnumf": floating(minimum_number),
    "arith.maximumf": floating(np.maximum),
    "arith.minimumf": floating(np.minimum),
    "tt.clampf": clamp,
    "math.absf": floating(np.abs),
    "math.absi": integral(np.abs),
    "math.exp": floating(_wide(np.exp)),
    "math.exp2": floating(_flushing(_wide(np.exp2))),
    "math.log": floating(_wide(np.log)),
    "math.log2": floating(_wide(np.log2)),
    "math.sqrt": floating(_flushing(np.sqrt)),
    "tt.precise_sqrt": floating(np.sqrt),
    "math.rsqrt": floating(_flushing(_wide(lambda value: 1 / np.sqrt(value)))),
    "math.sin": floating(_flushing(_wide(np.sin))),
    "math.cos": floating(_wide(np.cos)),
    "math.tanh": floating(_wide(np.tanh)),
    "math.erf": floating(_flushing(_erf)),
    "math.floor": floating(_flushing(np.floor)),
    "math.ceil": floating(_flushing(np.ceil)),
    "math.roundeven": floating(_round_half_even),
    "math.fma": floating(_wide(lambda left, right, addend: left * right + addend)),
}
