"""The instruction descriptor of `tcgen05.mma`: shape, types and scales of one product.

The fields are those of the PTX ISA, tables 42 to 44 of its section on instruction descriptors.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from harness.errors import CannotExecute

ROW_BYTES = 32
"""One product reads this much along K."""
_NARROW = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
_TYPES: Mapping[str, Mapping[int, str]] = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "i8": {0: "u8", 1: "s8"},
    "f8f6f4": _NARROW,
    "mxf8f6f4": _NARROW,
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
_ELEMENT_BITS = {"f16": 16, "tf32": 32, "i8": 8, "f8f6f4": 8, "mxf8f6f4": 8, "mxf4": 4, "mxf4nvf4": 4}
_SUMS = {0: "f16", 1: "f32", 2: "s32"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductShape:
    """What one `tcgen05.mma` computes."""

    height: int
    """M, of all CTAs that take part."""
    width: int
    """N, of all CTAs that take part."""
    depth: int
    element_bits: int
    """Of an element in memory; narrower types are padded to 8 bits, except for kinds of 4 bits."""
    left: str
    right: str
    out: str
    signs: tuple[int, int]
    transposes: tuple[bool, bool]
    """For both operands: neighbours along M or N are neighbours in shared memory."""
    saturates: bool
    scale_ids: tuple[int, int]
    """For both operands the byte of a cell with the first scale."""
    scale_kind: str


@lru_cache(maxsize=256)
def product_shape(kind: str, bits: int) -> ProductShape:
    """Read an instruction descriptor.

    Raises:
        CannotExecute: the product is sparse, or of types or a depth that are not known.
    """
    is_scaled = kind.startswith("mx")
    types = _TYPES.get(kind)
    left, right = (bits >> 7 & 7, bits >> 10 & 7)
    if types is None or left not in types or right not in types or bits >> 2 & 1:
        raise CannotExecute(f"tcgen05.mma of kind {kind} with the instruction descriptor {bits:#010x}")
    if bits >> (31 if is_scaled else 29) & 1 or (_ELEMENT_BITS[kind] == 4 and bits >> 3 & 1):
        raise CannotExecute(f"tcgen05.mma of kind {kind} with a depth other than {ROW_BYTES} bytes")
    # Block-scaled products have fields for scales where others have the type of the sum.
    return ProductShape(
        height=(bits >> 27 & 3) << 7 if is_scaled else (bits >> 24 & 31) << 4,
        width=(bits >> 17 & 63) << 3,
        depth=ROW_BYTES * 8 // _ELEMENT_BITS[kind],
        element_bits=_ELEMENT_BITS[kind],
        left=types[left],
        right=types[right],
        out="f32" if is_scaled else _SUMS[bits >> 4 & 3],
        signs=(-1 if bits >> 13 & 1 else 1, -1 if bits >> 14 & 1 else 1),
        transposes=(bool(bits >> 15 & 1), bool(bits >> 16 & 1)),
        saturates=not is_scaled and bool(bits >> 3 & 1),
        scale_ids=(bits >> 29 & 3, bits >> 4 & 3) if is_scaled else (0, 0),
        scale_kind="ue8m0" if bits >> 23 & 1 else "ue4m3",
    )
