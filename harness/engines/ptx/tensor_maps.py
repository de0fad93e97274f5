"""Tensor maps: the 128 bytes by which a bulk copy knows a tensor, in an encoding of the harness' own.

Kernels build a map in shared memory field by field (`tensormap.replace`), or get one that host code made.  A GPU keeps
its own encoding secret, and no kernel reads it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.engines.ptx.threads import Array

MAP_BYTES = 128
RANKS = 5
TAIL_BYTES = 16
"""A store clips rows at multiples of this."""
LAYOUT = np.dtype(
    [
        ("global_address", np.uint64),
        ("rank", np.uint8),
        ("elemtype", np.uint8),
        ("interleave_layout", np.uint8),
        ("swizzle_mode", np.uint8),
        ("fill_mode", np.uint8),
        ("swizzle_atomicity", np.uint8),
        ("spare", np.uint16),
        ("box_dim", np.uint32, RANKS),
        ("global_dim", np.uint32, RANKS),
        ("global_stride", np.uint64, RANKS - 1),
        ("element_stride", np.uint8, 8),
    ]
)
ELEMENT_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4)
"""By number of the element type."""
ELEMENT_KINDS = {6: "f16", 7: "f32", 8: "f32", 9: "f64", 10: "bf16", 11: "f32", 12: "f32"}
"""By number of a floating-point type, its name in instructions."""
SWIZZLE_BYTES = (0, 32, 64, 128)
PADDED_NIBBLES = 14
"""The number of the element type of 4 bits of which 16 take 8 bytes in global memory, and 16 bytes in shared memory."""
NIBBLES_PER_BYTE = 2
PADDED_BYTES = 8
"""So many bytes are followed by as many of padding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMap:
    """What a bulk copy needs to know; the innermost axis comes first."""

    address: int
    element_bytes: int
    kind: str
    """The floating-point type; empty for integers."""
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    """In bytes; that of the innermost axis is the size of an element."""
    box: tuple[int, ...]
    swizzle: int
    """The bytes of a row that a swizzle permutes; 0 for none."""
    fills_with_nan: bool
    is_padded: bool = False
    """Elements are bytes of two numbers of 4 bits, which are padded in shared memory; see `PADDED_NIBBLES`."""

    @classmethod
    def decode(cls, content: Array) -> "TensorMap":
        """Read a map from its bytes.

        Raises:
            ValueError: the fields describe no tensor.
        """
        fields: Any = np.ascontiguousarray(content[: LAYOUT.itemsize]).view(LAYOUT)[0]
        rank, kind = int(fields["rank"]) + 1, int(fields["elemtype"])
        is_padded = kind == PADDED_NIBBLES
        if (
            rank > RANKS
            or (kind >= len(ELEMENT_BYTES) and not is_padded)
            or int(fields["swizzle_mode"]) >= len(SWIZZLE_BYTES)
        ):
            raise ValueError("the bytes are no tensor map")
        size = 1 if is_padded else ELEMENT_BYTES[kind]
        extents, box = (tuple(map(int, fields[name][:rank])) for name in ("global_dim", "box_dim"))
        if is_padded:
            extents, box = _as_bytes(extents), _as_bytes(box)
        return cls(
            address=int(fields["global_address"]),
            element_bytes=size,
            kind=ELEMENT_KINDS.get(kind, ""),
            extents=extents,
            strides=(size, *map(int, fields["global_stride"][: rank - 1])),
            box=box,
            swizzle=SWIZZLE_BYTES[int(fields["swizzle_mode"])],
            fills_with_nan=bool(fields["fill_mode"]),
            is_padded=is_padded,
        )

    @property
    def box_bytes(self) -> int:
        return int(np.prod(self.box)) * self.element_bytes

    def box_offsets(self) -> Array:
        """Return for each element of a box its offset in a tile without a swizzle, with the innermost axis last.

        Padding counts as elements.
        """
        inner, *outer = self.box
        shape = (*outer[::-1], inner * (2 if self.is_padded else 1))
        return np.arange(int(np.prod(shape))).reshape(shape) * self.element_bytes

    def padded(self, content: Array) -> Array:
        """Return a box's elements as shared memory holds them."""
        if not self.is_padded:
            return content
        chunks = content.reshape(*content.shape[:-1], -1, PADDED_BYTES)
        return np.concatenate([chunks, np.zeros_like(chunks)], axis=-1).reshape(*content.shape[:-1], -1)

    def places(
        self, first: tuple[int, ...], rows: tuple[int, ...] = (), *, has_tail: bool = False
    ) -> tuple[Array, Array]:
        """Return the global addresses of a box's elements, and whether each is moved.

        Args:
            first: the coordinates of the box's first element.
            rows: of a gather, the coordinate along the second axis of each row of the box.
            has_tail: rows end at a multiple of 16 bytes, as those of stores do.
        """
        shape = self.box[::-1]
        address = np.full(shape, self.address, np.int64)
        inside = np.ones(shape, np.bool_)
        rank = len(shape)
        for axis, (begin, extent, stride) in enumerate(zip(first, self.extents, self.strides, strict=True)):
            at = np.array(rows) if rows and axis == 1 else begin + np.arange(self.box[axis])
            at = at.reshape(-1, *(1,) * axis) if axis < rank else at
            if has_tail and not axis:
                step = max(1, TAIL_BYTES // self.element_bytes)
                extent = -(-extent // step) * step  # noqa: PLW2901 - the row that is stored is longer
            address = address + at * stride
            inside = inside & (at >= 0) & (at < extent)
        return address, inside


def _as_bytes(extents: tuple[int, ...]) -> tuple[int, ...]:
    return extents[0] // NIBBLES_PER_BYTE, *extents[1:]


def encode(tensor: TensorMap) -> bytes:
    """Return the bytes of a map; the element type is the first one of its kind and size."""
    kind = next(
        number
        for number, size in enumerate(ELEMENT_BYTES)
        if size == tensor.element_bytes and ELEMENT_KINDS.get(number, "") == tensor.kind
    )
    factor = 1
    if tensor.is_padded:
        kind, factor = PADDED_NIBBLES, NIBBLES_PER_BYTE
    fields: Any = np.zeros(1, LAYOUT)
    item, rank = fields[0], len(tensor.extents)
    item["global_address"], item["rank"], item["elemtype"] = tensor.address, rank - 1, kind
    item["swizzle_mode"], item["fill_mode"] = SWIZZLE_BYTES.index(tensor.swizzle), tensor.fills_with_nan
    item["global_dim"][:rank], item["box_dim"][:rank] = tensor.extents, tensor.box
    item["global_dim"][0] *= factor
    item["box_dim"][0] *= factor
    item["global_stride"][: rank - 1] = tensor.strides[1:]
    return fields.tobytes().ljust(MAP_BYTES, b"\0")
