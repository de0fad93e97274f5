"""Matrix products: `tt.dot` at its input precision, and `tt.dot_scaled`.

Products are summed in float64 and rounded once, so the order of summation has no effect on results.
`max_num_imprecise_acc`, for hardware that sums some products with fewer bits, is ignored.
"""

from collections.abc import Mapping
from itertools import product

import numpy as np

from harness.engines.ttir.ir import Operation, Type
from harness.engines.virtual.machine import Handler, Machine, Value
from harness.engines.virtual.numbers.elements import Array, carrier, decode, rounded
from harness.engines.virtual.operations.arith import array
from harness.engines.virtual.operations.tile import broadcast
from harness.errors import CannotExecute


def dot(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.dot`: float32 operands are reduced to the input precision; other types are used as they are."""
    del machine
    left, right, addend = factors(operation, frame)
    if operation.operand_types[0].element.startswith("i"):
        return (left.astype(np.int64) @ right.astype(np.int64) + addend).astype(np.int32)
    result = _product_at_precision(left, right, _precision(operation)) + addend
    element = operation.result_types[0].element
    return rounded(result.astype(carrier(element), copy=False), element)


def factors(operation: Operation, frame: list[Value]) -> tuple[Array, Array, Array]:
    """Return the factors of a `tt.dot`, broadcast to their full shapes, and its accumulator operand."""
    left, right, addend = (array(frame[slot]) for slot in operation.operands)
    kinds = operation.operand_types
    return broadcast(left, kinds[0]), broadcast(right, kinds[1]), addend


def _precision(operation: Operation) -> str:
    return (
        str(operation.attributes.get("inputPrecision", "ieee")) if operation.operand_types[0].element == "f32" else ""
    )


def _product_at_precision(left: Array, right: Array, precision: str) -> Array:
    match precision:
        case "" | "ieee":
            return _float64_product(left, right)
        case "tf32":
            return _float64_product(_cut_to_tf32(left), _cut_to_tf32(right))
        case "tf32x3":
            return _product_of_parts(_tf32_parts(left), _tf32_parts(right), 2)
        case "bf16x3":
            return _product_of_parts(_bfloat16_parts(left, 2), _bfloat16_parts(right, 2), 2)
        case "bf16x6":
            return _product_of_parts(_bfloat16_parts(left, 3), _bfloat16_parts(right, 3), 3)
        case _:
            raise CannotExecute(f"input precision {precision}")


def _float64_product(left: Array, right: Array) -> Array:
    return np.matmul(left.astype(np.float64, copy=False), right.astype(np.float64, copy=False))


def _cut_to_tf32(values: Array) -> Array:
    """Cut to ten mantissa bits, toward zero: tensor cores ignore the others (observed on an H200, mma and wgmma)."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    return np.where(np.isnan(values), values, (bits & np.uint32(0xFFFFE000)).view(np.float32))


def _tf32_parts(values: Array) -> tuple[Array, ...]:
    """The numbers rounded to tf32, to nearest with ties away from zero, and the remainder in tf32."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    large = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    large = np.where(np.isnan(values), values, large)
    return large, _cut_to_tf32(values - large)


def _bfloat16_parts(values: Array, count: int) -> tuple[Array, ...]:
    """The numbers in bfloat16, the remainder in bfloat16, and so on: `count` parts."""
    parts: list[Array] = []
    rest = values
    for _ in range(count):
        parts.append(rounded(np.ascontiguousarray(rest), "bf16"))
        rest = rest - parts[-1]
    return tuple(parts)


def _product_of_parts(left: tuple[Array, ...], right: tuple[Array, ...], count: int) -> Array:
    """Sum the products of parts, smallest first; products of parts i and j with i + j >= `count` are left out.

    A NaN among the small products (infinity minus infinity) counts as zero, so the largest product decides.
    """
    pairs = sorted(
        ((first, second) for first, second in product(range(count), repeat=2) if 0 < first + second < count),
        key=lambda pair: -sum(pair),
    )
    small = np.float32(0)
    for first, second in pairs:
        small = small + np.matmul(left[first], right[second])
    return np.matmul(left[0], right[0]) + np.nan_to_num(small, nan=0.0, posinf=np.inf, neginf=-np.inf)


# --- block-scaled products ---

_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
"""The `e2m1` numbers, by their four-bit code."""
_FORMATS = {"e4m3": "f8E4M3FN", "e5m2": "f8E5M2", "fp16": "f16", "bf16": "bf16"}
_NO_SCALE = 0xFF
"""The e8m0 scale that means NaN."""


def dot_scaled(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.dot_scaled`: groups of 16 or 32 neighbours along the inner axis share a scale."""
    del machine
    left, right, addend = scaled_factors(operation, frame)
    return np.matmul(left, right) + addend


def scaled_factors(operation: Operation, frame: list[Value]) -> tuple[Array, Array, Array]:
    """Return the factors of a `tt.dot_scaled`, multiplied by their scales, and its accumulator operand."""
    scaled = operation.attributes["scales"]  # positions of operands that are scales of the operand before them
    assert isinstance(scaled, tuple)
    names = iter(("lhs", "rhs", "acc"))
    name, blocks, kinds = "", dict[str, Array](), dict[str, Type]()
    for at, (slot, kind) in enumerate(zip(operation.operands, operation.operand_types, strict=True)):
        name = f"{name}_scale" if at in scaled else next(names)
        blocks[name], kinds[name] = broadcast(array(frame[slot]), kind), kind
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
    """One scale for each element along the inner axis, from e8m0 bytes or from 8-bit floats."""
    if kind.element == "i8":
        raw = block.view(np.uint8)
        result = np.ldexp(np.float32(1), raw.astype(np.int32) - 127).astype(np.float32)
        if not fast:
            result = np.where(raw == _NO_SCALE, np.float32("nan"), result)
    else:
        result = block
    return np.repeat(result, length // block.shape[-1], axis=-1)


HANDLERS: Mapping[str, Handler] = {"tt.dot": dot, "tt.dot_scaled": dot_scaled}
