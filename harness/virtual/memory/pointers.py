"""Pointers with provenance: which argument, which element.

A block of pointers is kept as a sum of un-broadcast index parts, so that `base + rows[:, None] * stride +
columns[None, :]` stays three small arrays until an access needs it, and an access sees by itself that a row's columns
are neighbours.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from harness.errors import CannotExecute
from harness.virtual.numbers.elements import Array


@dataclass(frozen=True, slots=True)
class Pointers:
    """A block of pointers into one argument.

    Each part is an int64 array with a leading program axis; the parts' broadcast sum is the element index, counted from
    the argument's first element in units of `element_bytes`.
    """

    argument: int
    element_bytes: int
    parts: tuple[Array, ...]

    def plus(self, offset: Array) -> "Pointers":
        """The pointers moved by a block of element offsets; parts that need no larger block are added up at once."""
        offset = offset.astype(np.int64, copy=False)
        for index, part in enumerate(self.parts):
            if part.ndim != offset.ndim:
                continue
            shape = np.broadcast_shapes(part.shape, offset.shape)
            if shape in (part.shape, offset.shape):
                return Pointers(
                    self.argument, self.element_bytes, (*self.parts[:index], part + offset, *self.parts[index + 1 :])
                )
        return Pointers(self.argument, self.element_bytes, (*self.parts, offset))

    def mapped(self, change: Callable[[Array], Array]) -> "Pointers":
        """The same pointers with each part reshaped by `change`."""
        return Pointers(self.argument, self.element_bytes, tuple(change(part) for part in self.parts))

    def index(self) -> Array:
        """The element indices as one array."""
        total = self.parts[0]
        for part in self.parts[1:]:
            total = total + part
        return total

    def in_units_of(self, element_bytes: int) -> "Pointers":
        """The same addresses counted in elements of another size."""
        if element_bytes == self.element_bytes:
            return self
        offset = self.index() * self.element_bytes
        if (offset % element_bytes).any():
            raise CannotExecute("pointers cast to a type at addresses that are no multiple of its size")
        return Pointers(self.argument, element_bytes, (offset // element_bytes,))


@dataclass(frozen=True, slots=True)
class Several:
    """A block of pointers into several arguments.

    Each way is a mask and the pointers that hold where it is set; of the masks exactly one is set in each lane.
    """

    ways: tuple[tuple[Array, Pointers], ...]

    @classmethod
    def of(cls, ways: Sequence[tuple[Array, Pointers]]) -> "Pointers | Several":
        """These ways, those that nobody takes left out, those into one argument taken together."""
        kept: list[tuple[Array, Pointers]] = []
        for mask, way in ways:
            if not mask.any():
                continue
            for at, (known, other) in enumerate(kept):
                if (other.argument, other.element_bytes) == (way.argument, way.element_bytes):
                    both = Pointers(way.argument, way.element_bytes, (np.where(mask, way.index(), other.index()),))
                    kept[at] = (known | mask, both)
                    break
            else:
                kept.append((mask, way))
        return kept[0][1] if len(kept) == 1 else cls(tuple(kept or ways[:1]))

    def plus(self, offset: Array) -> "Several":
        """All of them moved."""
        return Several(tuple((mask, way.plus(offset)) for mask, way in self.ways))

    def mapped(self, change: Callable[[Array], Array]) -> "Several":
        """The same pointers with masks and parts reshaped by `change`."""
        return Several(tuple((change(mask), way.mapped(change)) for mask, way in self.ways))

    def in_units_of(self, element_bytes: int) -> "Several":
        """The same addresses counted in elements of another size."""
        return Several(tuple((mask, way.in_units_of(element_bytes)) for mask, way in self.ways))


def ways_of(pointers: Pointers | Several) -> tuple[tuple[Array, Pointers], ...]:
    """The arguments that pointers may lead into, each with the lanes that take it."""
    if isinstance(pointers, Several):
        return pointers.ways
    return ((np.ones((1,) * pointers.parts[0].ndim, np.bool_), pointers),)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A tensor descriptor: where the tensor begins, its extents and its strides in elements.

    Extents, strides and flags hold one number a program, or one for all.
    """

    base: Pointers | Several
    extents: tuple[Array, ...]
    strides: tuple[Array, ...]
    pads_with_nan: Array
    rounds_to_tf32: Array
    """Whether loads round to tf32, ties to even; only the host can ask for it."""
