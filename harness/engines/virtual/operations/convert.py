"""Conversions between number types: `tt.fp_to_fp` with its rounding modes, extension, truncation, bitcasts.

Conversions of 8-bit floats by `tt.fp_to_fp` depend on the GPU.  AMD's round to nearest and saturate (the assembly of
Triton 3.6.0 for gfx942 and gfx950).  Of NVIDIA's, before compute capability 9.0 the compiler goes through
float16.  Before 8.9 there is no conversion instruction, and the compiler emits integer arithmetic that rounds.
"""

from collections.abc import Mapping

import numpy as np

from harness.engines.ttir.ir import Operation
from harness.engines.virtual.machine import Handler, Machine, Value
from harness.engines.virtual.memory.pointers import MixedPointers, Pointers
from harness.engines.virtual.numbers import float8
from harness.engines.virtual.numbers.elements import (
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
from harness.engines.virtual.operations.arith import array
from harness.errors import CannotExecute
from harness.model.device import Arch

NVIDIA_FLOAT8 = frozenset({"f8E4M3FN", "f8E5M2"})
CONVERTS_FLOAT8 = 89
"""The first compute capability with instructions for 8-bit floats."""
CONVERTS_FLOAT32_TO_FLOAT8 = 90
"""The first compute capability for which Triton 3.6 to 3.9 converts float32 to 8-bit floats directly."""


def convert(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`arith.extf`, `truncf`, `trunci` and `index_cast`: rounds to nearest, ties to even."""
    del machine
    element = operation.result_types[0].element
    value = array(frame[operation.operands[0]])
    if element == "i1":
        return (value & 1).astype(np.bool_)
    return _nearest(value, element)


def _nearest(value: Array, element: str) -> Array:
    if element in NARROW_FLOATS and value.dtype == np.float64:  # the way leads through float32: do not round twice
        value = to_odd(value)
    return rounded(value.astype(carrier(element), copy=False), element)


def float_to_float(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.fp_to_fp`."""
    source, target = operation.operand_types[0].element, operation.result_types[0].element
    rounding = str(operation.attributes.get("rounding", "rtne"))
    value = array(frame[operation.operands[0]])
    if rounding not in {"rtne", "rtz"}:
        raise CannotExecute(f"rounding {rounding}")
    if target in float8.FORMATS:
        return _to_float8(machine.arch, value, (source, target), is_toward_zero=rounding == "rtz")
    if (source, target) == ("f8E5M2", "bf16") and isinstance(machine.arch, int):
        return _beyond_e5m2(value)
    if rounding == "rtz":
        if source != "f32" or target not in {"f16", "bf16"}:
            raise CannotExecute(f"rounding toward zero from {source} to {target}")
        return toward_zero(value, target)
    return _nearest(value, target)


def _to_float8(arch: Arch, value: Array, kinds: tuple[str, str], *, is_toward_zero: bool) -> Array:
    source, target = kinds
    if isinstance(arch, str):  # each step of AMD's conversions is exact or rounds to nearest; assumed of Intel's too
        if is_toward_zero:
            raise CannotExecute(f"rounding toward zero from {source} to {target}")
        return _nearest(value, target)
    if target not in NVIDIA_FLOAT8:
        raise CannotExecute(f"{target} on an NVIDIA GPU")
    if source == "f32" and (is_toward_zero or arch < CONVERTS_FLOAT32_TO_FLOAT8):
        value, source = toward_zero(value, "f16"), "f16"
    if is_toward_zero:
        if (source, target) != ("f16", "f8E5M2"):
            raise CannotExecute(f"rounding toward zero from {kinds[0]} to {target}")
        return decode((_half_bits(value) >> 8).astype(np.uint8), target)
    if arch >= CONVERTS_FLOAT8:
        return _nearest(value, target)
    if target != "f8E5M2":
        raise CannotExecute(f"{target} before compute capability 8.9")
    if source == "bf16":
        return _bfloat16_to_e5m2_by_hand(value)
    # The compiler adds half a unit: ties round away from zero, and overflow becomes infinity.
    rounded_up = ((_half_bits(value) & 0xFFFE) + np.uint16(0x80)).astype(np.uint16)
    return decode((rounded_up >> 8).astype(np.uint8), target)


def _half_bits(value: Array) -> Array:
    return np.where(np.isnan(value), np.uint16(0x7FFF), value.astype(np.float16).view(np.uint16)).astype(np.uint16)


def _bfloat16_to_e5m2_by_hand(value: Array) -> Array:
    """Round as the compiler's integer arithmetic does: ties away from zero; an overflow corrupts the sign bit."""
    bits = encode(value, "bf16").astype(np.int32)
    clamped = np.clip(bits & 0x7FFF, 0x3800, 0x57E0) + 0x10 - 0x3800
    return decode((clamped >> 5 | (bits & 0x8000) >> 8).astype(np.uint8), "f8E5M2")


def _beyond_e5m2(value: Array) -> Array:
    """Convert f8E5M2 to bf16 as the compiler does: it only rebiases the exponent.

    Infinities and NaNs therefore become finite numbers of 65,536 and above.
    """
    beyond = ~np.isfinite(value)
    fraction = (bits_of(value) >> 21 & 3).astype(np.float32)
    return np.where(beyond, np.copysign(np.float32(65_536) * (1 + fraction / 4), value), value).astype(np.float32)


def bitcast(machine: Machine, operation: Operation, frame: list[Value]) -> Value:
    """`tt.bitcast` and `arith.bitcast`: pointers to another element type, or the bits of numbers as another type."""
    del machine
    value = frame[operation.operands[0]]
    target, source = operation.result_types[0], operation.operand_types[0]
    if isinstance(value, Pointers | MixedPointers):
        assert target.pointee is not None
        return value.in_units_of(target.pointee.bytes)
    return as_type(array(value), source.element, target.element)


def as_type(values: Array, source: str, target: str) -> Array:
    """Reinterpret carried values of one element type as carried values of another of the same width."""
    raw = bits_of(np.ascontiguousarray(encode(np.ascontiguousarray(values), source)))
    return (raw & 1).astype(np.bool_) if target == "i1" else decode(raw.view(storage(target)), target)


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
