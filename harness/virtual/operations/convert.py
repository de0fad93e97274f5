"""Conversions between numbers: `tt.fp_to_fp` with its rounding modes, extension, truncation, bits as another type.

What `tt.fp_to_fp` does to 8-bit floats depends on the GPU: before compute capability 9.0 the compiler goes through
float16, and before 8.9 it has no instruction for it and rounds by hand.
"""

from collections.abc import Mapping

import numpy as np

from harness.errors import CannotExecute
from harness.virtual.machine import Handler, Machine, Value
from harness.virtual.memory.pointers import Pointers, Several
from harness.virtual.numbers import float8
from harness.virtual.numbers.elements import (
    NARROW_FLOATS,
    Array,
    bits_of,
    carrier,
    decode,
    encode,
    rounded,
    storage,
    to_odd,
    toward_zero,
)
from harness.virtual.operations.arith import array
from harness.virtual.ttir.ir import Operation

CONVERTS_FLOAT8 = 89
"""The first compute capability with instructions for 8-bit floats."""
CONVERTS_FLOAT32_TO_FLOAT8 = 90
"""The first for which Triton 3.6 to 3.9 converts float32 to them directly."""


def convert(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`arith.extf`, `truncf`, `trunci`, `index_cast`: to nearest, ties to even."""
    del machine
    element = operation.result_types[0].element
    value = array(frame[operation.operands[0]])
    if element == "i1":
        return (value & 1).astype(np.bool_)
    return _nearest(value, element)


def _nearest(value: Array, element: str) -> Array:
    if element in NARROW_FLOATS and value.dtype == np.float64:
        value = to_odd(value)
    return rounded(value.astype(carrier(element), copy=False), element)


def float_to_float(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.fp_to_fp`."""
    given, wanted = operation.operand_types[0].element, operation.result_types[0].element
    rounding = str(operation.attributes.get("rounding", "rtne"))
    value = array(frame[operation.operands[0]])
    if rounding not in {"rtne", "rtz"}:
        raise CannotExecute(f"rounding {rounding}")
    if wanted in float8.FORMATS:
        return _to_float8(machine.arch, value, (given, wanted), cut=rounding == "rtz")
    if (given, wanted) == ("f8E5M2", "bf16"):
        return _beyond_e5m2(value)
    if rounding == "rtz":
        if given != "f32" or wanted not in {"f16", "bf16"}:
            raise CannotExecute(f"rounding toward zero from {given} to {wanted}")
        return toward_zero(value, wanted)
    return _nearest(value, wanted)


def _to_float8(arch: int, value: Array, kinds: tuple[str, str], *, cut: bool) -> Array:
    given, wanted = kinds
    if given == "f32" and (cut or arch < CONVERTS_FLOAT32_TO_FLOAT8):
        value, given = toward_zero(value, "f16"), "f16"
    if cut:
        if (given, wanted) != ("f16", "f8E5M2"):
            raise CannotExecute(f"rounding toward zero from {kinds[0]} to {wanted}")
        return decode((_half_bits(value) >> 8).astype(np.uint8), wanted)
    if arch >= CONVERTS_FLOAT8:
        return _nearest(value, wanted)
    if wanted != "f8E5M2":
        raise CannotExecute(f"{wanted} before compute capability 8.9")
    if given == "bf16":
        return _bfloat16_to_e5m2_by_hand(value)
    up = ((_half_bits(value) & 0xFFFE) + np.uint16(0x80)).astype(np.uint16)  # ties away from zero, overflow to infinity
    return decode((up >> 8).astype(np.uint8), wanted)


def _half_bits(value: Array) -> Array:
    return np.where(np.isnan(value), np.uint16(0x7FFF), value.astype(np.float16).view(np.uint16)).astype(np.uint16)


def _bfloat16_to_e5m2_by_hand(value: Array) -> Array:
    """Ties away from zero; what overflows runs into the sign, and becomes some other number."""
    bits = encode(value, "bf16").astype(np.int32)
    held = np.clip(bits & 0x7FFF, 0x3800, 0x57E0) + 0x10 - 0x3800
    return decode((held >> 5 | (bits & 0x8000) >> 8).astype(np.uint8), "f8E5M2")


def _beyond_e5m2(value: Array) -> Array:
    """f8E5M2 to bf16 moves the exponent and nothing else: infinities and NaN become the next powers of two."""
    beyond = ~np.isfinite(value)
    fraction = (bits_of(value) >> 21 & 3).astype(np.float32)
    return np.where(beyond, np.copysign(np.float32(65_536) * (1 + fraction / 4), value), value).astype(np.float32)


def bitcast(machine: Machine, operation: Operation, frame: list[Value]) -> Value:
    """`tt.bitcast` and `arith.bitcast`: the same addresses in other elements, or the same bits as another number."""
    del machine
    value = frame[operation.operands[0]]
    wanted, had = operation.result_types[0], operation.operand_types[0]
    if isinstance(value, Pointers | Several):
        assert wanted.pointee is not None
        return value.in_units_of(wanted.pointee.bytes)
    return as_type(array(value), had.element, wanted.element)


def as_type(values: Array, had: str, wanted: str) -> Array:
    """The bits of carried values of one element type as carried values of another of the same width."""
    raw = bits_of(np.ascontiguousarray(encode(np.ascontiguousarray(values), had)))
    return (raw & 1).astype(np.bool_) if wanted == "i1" else decode(raw.view(storage(wanted)), wanted)


HANDLERS: Mapping[str, Handler] = {
    "arith.trunci": convert,
    "arith.index_cast": convert,
    "arith.index_castui": convert,
    "arith.extf": convert,
    "arith.truncf": convert,
    "tt.fp_to_fp": float_to_float,
    "tt.bitcast": bitcast,
    "arith.bitcast": bitcast,
}
