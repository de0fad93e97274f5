"""Products of blocks: `tt.dot` at the input precision that it names, and `tt.dot_scaled`.

Whole products are summed in float64 and rounded once, so that no order of summing shows; how many products hardware
sums with fewer bits (`max_num_imprecise_acc`) is left out.
"""

from collections.abc import Mapping
from itertools import product

import numpy as np

from harness.errors import CannotExecute
from harness.virtual.machine import Handler, Machine, Value
from harness.virtual.numbers.elements import Array, carrier, decode, rounded
from harness.virtual.operations.arith import array
from harness.virtual.operations.tile import spread
from harness.virtual.ttir.ir import Operation, Type


def dot(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.dot`: float32 is taken apart as the input precision says, every other type enters as it is."""
    del machine
    left, right, addend = factors(operation, frame)
    if operation.operand_types[0].element.startswith("i"):
        return (left.astype(np.int64) @ right.astype(np.int64) + addend).astype(np.int32)
    made = _at_precision(left, right, _precision(operation)) + addend
    element = operation.result_types[0].element
    return rounded(made.astype(carrier(element), copy=False), element)


def factors(operation: Operation, frame: list[Value]) -> tuple[Array, Array, Array]:
    """Of `tt.dot`: the blocks that are multiplied, with all their elements, and what is added."""
    left, right, addend = (array(frame[slot]) for slot in operation.operands)
    kinds = operation.operand_types
    return spread(left, kinds[0]), spread(right, kinds[1]), addend


def _precision(operation: Operation) -> str:
    return (
        str(operation.attributes.get("inputPrecision", "ieee")) if operation.operand_types[0].element == "f32" else ""
    )


def _at_precision(left: Array, right: Array, precision: str) -> Array:
    match precision:
        case "" | "ieee":
            return _summed_wide(left, right)
        case "tf32":
            return _summed_wide(_cut_to_tf32(left), _cut_to_tf32(right))
        case "tf32x3":
            return _in_parts(_tf32_parts(left), _tf32_parts(right), 2)
        case "bf16x3":
            return _in_parts(_bfloat16_parts(left, 2), _bfloat16_parts(right, 2), 2)
        case "bf16x6":
            return _in_parts(_bfloat16_parts(left, 3), _bfloat16_parts(right, 3), 3)
        case _:
            raise CannotExecute(f"input precision {precision}")


def _summed_wide(left: Array, right: Array) -> Array:
    return np.matmul(left.astype(np.float64, copy=False), right.astype(np.float64, copy=False))


def _cut_to_tf32(values: Array) -> Array:
    """Ten mantissa bits, toward zero: the tensor cores pass over the others (read off an H200, mma and wgmma alike)."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    return np.where(np.isnan(values), values, (bits & np.uint32(0xFFFFE000)).view(np.float32))


def _tf32_parts(values: Array) -> tuple[Array, ...]:
    """The number in tf32, to nearest with ties away from zero, and what that leaves."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    large = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    large = np.where(np.isnan(values), values, large)
    return large, _cut_to_tf32(values - large)


def _bfloat16_parts(values: Array, count: int) -> tuple[Array, ...]:
    """The number in bfloat16, what that leaves in bfloat16, and so on."""
    parts: list[Array] = []
    rest = values
    for _ in range(count):
        parts.append(rounded(np.ascontiguousarray(rest), "bf16"))
        rest = rest - parts[-1]
    return tuple(parts)


def _in_parts(left: tuple[Array, ...], right: tuple[Array, ...], count: int) -> Array:
    """Products of parts, smallest first, without those below the first `count` sizes.

    What is no number in the small ones (infinity less infinity) counts as zero, so that the largest product decides.
    """
    pairs = sorted(
        ((one, other) for one, other in product(range(count), repeat=2) if 0 < one + other < count),
        key=lambda pair: -sum(pair),
    )
    small = np.float32(0)
    for one, other in pairs:
        small = small + np.matmul(left[one], right[other])
    return np.matmul(left[0], right[0]) + np.nan_to_num(small, nan=0.0, posinf=np.inf, neginf=-np.inf)


# --- block-scaled products ---

_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
"""What four bits mean in `e2m1`."""
_FORMATS = {"e4m3": "f8E4M3FN", "e5m2": "f8E5M2", "fp16": "f16", "bf16": "bf16"}
_NO_SCALE = 0xFF
"""The e8m0 scale that is no number."""


def dot_scaled(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.dot_scaled`: blocks of 16 or 32 neighbours along the inner axis share a scale."""
    del machine
    left, right, addend = scaled_factors(operation, frame)
    return np.matmul(left, right) + addend


def scaled_factors(operation: Operation, frame: list[Value]) -> tuple[Array, Array, Array]:
    """Of `tt.dot_scaled`: the blocks that are multiplied, as numbers times their scales, and what is added."""
    scaled = operation.attributes["scales"]
    assert isinstance(scaled, tuple)
    names = iter(("lhs", "rhs", "acc"))
    name, blocks, kinds = "", dict[str, Array](), dict[str, Type]()
    for at, (slot, kind) in enumerate(zip(operation.operands, operation.operand_types, strict=True)):
        name = f"{name}_scale" if at in scaled else next(names)
        blocks[name], kinds[name] = spread(array(frame[slot]), kind), kind
    fast = bool(operation.attributes.get("fastMath"))
    left = _unpacked(
        blocks["lhs"], str(operation.attributes["lhs"]), -1 if operation.attributes.get("lhs_k_pack", True) else -2
    )
    right = _unpacked(
        blocks["rhs"], str(operation.attributes["rhs"]), -2 if operation.attributes.get("rhs_k_pack", True) else -1
    )
    if "lhs_scale" in blocks:
        left = left * _scales(blocks["lhs_scale"], kinds["lhs_scale"], left.shape[-1], fast=fast)
    if "rhs_scale" in blocks:
        scales = _scales(blocks["rhs_scale"], kinds["rhs_scale"], right.shape[-2], fast=fast)
        right = right * np.swapaxes(scales, -1, -2)
    return left, right, blocks["acc"]


def _unpacked(block: Array, form: str, axis: int) -> Array:
    if form != "e2m1":
        if form not in _FORMATS:
            raise CannotExecute(f"dot_scaled with operands in {form}")
        return block if block.dtype == np.float32 else decode(block.view(np.uint8), _FORMATS[form])
    raw = block.view(np.uint8)
    pairs = np.stack((_E2M1[raw & 0xF], _E2M1[raw >> 4]), axis=axis)
    shape = list(block.shape)
    shape[axis] *= 2
    return pairs.reshape(shape)


def _scales(block: Array, kind: Type, length: int, *, fast: bool) -> Array:
    """One factor for each number along the inner axis, from e8m0 bytes or from 8-bit floats."""
    if kind.element == "i8":
        raw = block.view(np.uint8)
        made = np.ldexp(np.float32(1), raw.astype(np.int32) - 127).astype(np.float32)
        if not fast:
            made = np.where(raw == _NO_SCALE, np.float32("nan"), made)
    else:
        made = block
    return np.repeat(made, length // block.shape[-1], axis=-1)


HANDLERS: Mapping[str, Handler] = {"tt.dot": dot, "tt.dot_scaled": dot_scaled}
