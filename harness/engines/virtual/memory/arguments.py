"""The pointer arguments of one launch: the bytes that each may touch, and element numbers as tensor indices."""

import ctypes
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import numpy as np

from harness.engines.virtual.memory.shadow import Shadow
from harness.engines.virtual.numbers.elements import Array
from harness.execution.poison import Poison


class Buffer:
    """One storage: its bytes, and its shadow in the current launch.  Arguments that alias share one buffer."""

    def __init__(self, address: int, size_bytes: int, poison: Poison | None) -> None:
        self.address = address
        self.size_bytes = size_bytes
        self.poison = poison
        self.cell_bytes = 8
        self.track_readers = False
        self._typed: dict[type[np.generic], Array] = {}

    @cached_property
    def bytes(self) -> Array:
        memory = (ctypes.c_uint8 * self.size_bytes).from_address(self.address)
        return np.ctypeslib.as_array(memory)

    @cached_property
    def shadow(self) -> Shadow:
        """The shadow memory, created at the first access that needs it."""
        return Shadow(self.size_bytes, self.cell_bytes, track_readers=self.track_readers)

    def as_type(self, dtype: type[np.generic]) -> Array:
        """Return the bytes as whole elements of a type, from the storage's start."""
        if dtype not in self._typed:
            size = np.dtype(dtype).itemsize
            self._typed[dtype] = self.bytes[: self.size_bytes // size * size].view(dtype)
        return self._typed[dtype]


# Launches have the same few shapes again and again.
@lru_cache(4096)
def _extent(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    if not prod(shape):
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


@lru_cache(4096)
def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Return True if each axis, from the narrowest stride up, begins where the axes below it end."""
    reached = 1
    for stride, size in sorted(
        (stride, size) for stride, size in zip(strides, shape, strict=True) if size > 1 and stride
    ):
        if stride != reached:
            return False
        reached *= size
    return True


@dataclass(frozen=True)
class Argument:
    """A pointer argument: a view into a buffer, or null.

    `first_byte` is the offset of its first element in the buffer; `strides` are in elements.
    """

    name: str
    buffer: Buffer | None
    first_byte: int
    element_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    is_unknown_address: bool = False
    """The argument stands for an address that no tensor holds."""

    @property
    def extent(self) -> int:
        """One more than the largest element number of the view; 0 for an empty one."""
        return _extent(self.shape, self.strides)

    @property
    def has_still_axis(self) -> bool:
        """True if a stride is 0, as of an expanded tensor."""
        return 0 in self.strides

    @cached_property
    def covered(self) -> Array | None:
        """A mask of the elements below `extent` that belong to the view; None if all do."""
        if not self.extent or _is_dense(self.shape, self.strides):
            return None
        cover = np.zeros(self.extent, np.bool_)
        view = np.lib.stride_tricks.as_strided(cover, self.shape, self.strides)
        view[...] = True
        return None if cover.all() else cover

    def index_of(self, element: int) -> tuple[int, ...]:
        """Return the tensor index of an element number; the number itself if it lies outside the tensor."""
        index = [0] * len(self.shape)
        rest = element
        for axis in sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis]):
            if self.strides[axis] and self.shape[axis] > 1:
                index[axis], rest = divmod(rest, self.strides[axis])
        inside = all(0 <= at < size for at, size in zip(index, self.shape, strict=True))
        return tuple(index) if inside and not rest else (element,)

    def cells_of(self, elements: Array) -> Array:
        """Return the positions of elements in the flattened tensor; elements outside the tensor are dropped.

        An element that a stride of 0 repeats has the first of its positions.
        """
        rest, position, inside = elements, np.zeros_like(elements), np.full(len(elements), self.extent > 0)
        for axis in sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis]):
            if self.strides[axis] and self.shape[axis] > 1:
                index, rest = np.divmod(rest, self.strides[axis])
                inside &= (index >= 0) & (index < self.shape[axis])
                position = position + index * prod(self.shape[axis + 1 :])
        return position[inside & (rest == 0)]
