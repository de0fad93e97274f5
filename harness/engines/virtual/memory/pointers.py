"""Pointers with provenance: each knows its argument and its element.

A block of pointers is a sum of un-broadcast index parts.  `base + rows[:, None] * stride + columns[None, :]` stays
three small arrays until an access needs it.  The access can then see that the columns of a row are neighbours.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.engines.virtual.numbers.elements import Array
from harness.errors import CannotExecute


@dataclass(frozen=True, slots=True)
class Pointers:
    """A block of pointers into one argument.

    Each part is an int64 array with a leading program axis.  The broadcast sum of the parts is the element index,
    counted from the argument's first element in units of `element_bytes`.
    """

    argument: int
    element_bytes: int
    parts: tuple[Array, ...]

    def plus(self, offset: Array) -> "Pointers":
        """Return the pointers moved by a block of element offsets."""
        offset = offset.astype(np.int64, copy=False)
        for index, part in enumerate(self.parts):
            if part.ndim != offset.ndim:
                continue
            # Add the offset to a part at once if the sum is no larger than either of them.
            shape = np.broadcast_shapes(part.shape, offset.shape)
            if shape in (part.shape, offset.shape):
                return Pointers(
                    self.argument, self.element_bytes, (*self.parts[:index], part + offset, *self.parts[index + 1 :])
                )
        return Pointers(self.argument, self.element_bytes, (*self.parts, offset))

    def mapped(self, change: Callable[[Array], Array]) -> "Pointers":
        """Return the same pointers with each part reshaped by `change`."""
        return Pointers(self.argument, self.element_bytes, tuple(change(part) for part in self.parts))

    def index(self) -> Array:
        """Return the element indices as one array."""
        total = self.parts[0]
        for part in self.parts[1:]:
            total = total + part
        return total

    def in_units_of(self, element_bytes: int) -> "Pointers":
        """Return the same addresses, counted in elements of another size."""
        if element_bytes == self.element_bytes:
            return self
        offset = self.index() * self.element_bytes
        if (offset % element_bytes).any():
            raise CannotExecute("pointers cast to a type at addresses that are no multiple of its size")
        return Pointers(self.argument, element_bytes, (offset // element_bytes,))


@dataclass(frozen=True, slots=True)
class MixedPointers:
    """A block of pointers into several arguments.

    Each choice is a mask and the pointers of its lanes.  Every lane is set in exactly one mask.
    """

    choices: tuple[tuple[Array, Pointers], ...]

    @classmethod
    def of(cls, choices: Sequence[tuple[Array, Pointers]]) -> "Pointers | MixedPointers":
        """Join choices of the same argument, and drop those without a lane."""
        kept: list[tuple[Array, Pointers]] = []
        for mask, pointers in choices:
            if not mask.any():
                continue
            for at, (known, other) in enumerate(kept):
                if (other.argument, other.element_bytes) == (pointers.argument, pointers.element_bytes):
                    index = np.where(mask, pointers.index(), other.index())
                    kept[at] = (known | mask, Pointers(pointers.argument, pointers.element_bytes, (index,)))
                    break
            else:
                kept.append((mask, pointers))
        return kept[0][1] if len(kept) == 1 else cls(tuple(kept or choices[:1]))

    def plus(self, offset: Array) -> "MixedPointers":
        return MixedPointers(tuple((mask, pointers.plus(offset)) for mask, pointers in self.choices))

    def mapped(self, change: Callable[[Array], Array]) -> "MixedPointers":
        """Return the same pointers with masks and parts reshaped by `change`."""
        return MixedPointers(tuple((change(mask), pointers.mapped(change)) for mask, pointers in self.choices))

    def in_units_of(self, element_bytes: int) -> "MixedPointers":
        """Return the same addresses, counted in elements of another size."""
        return MixedPointers(tuple((mask, pointers.in_units_of(element_bytes)) for mask, pointers in self.choices))


def choices_of(pointers: Pointers | MixedPointers) -> tuple[tuple[Array, Pointers], ...]:
    """Return the pointers into each argument, with the mask of their lanes."""
    if isinstance(pointers, MixedPointers):
        return pointers.choices
    return ((np.ones((1,) * pointers.parts[0].ndim, np.bool_), pointers),)


def split_by_argument(address: Pointers | MixedPointers, mask: Array | None) -> Iterator[tuple[Pointers, Array | None]]:
    """Split an access into one access for each argument that its pointers lead into."""
    if isinstance(address, Pointers):
        yield address, mask
        return
    for mask_of_part, target in address.choices:
        yield target, mask_of_part if mask is None else mask & mask_of_part


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A tensor descriptor: the tensor's first element, its extents, and its strides in elements.

    Extents, strides and flags hold one number per program, or one for all programs.
    """

    base: Pointers | MixedPointers
    extents: tuple[Array, ...]
    strides: tuple[Array, ...]
    pads_with_nan: Array
    rounds_to_tf32: Array
    """Loads round to tf32, ties to even.  Only host code can ask for it."""
