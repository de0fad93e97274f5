"""The exact values of the floating-point elements that the tensors of one case hold.

A library rounds every number that it computes.  An *exact run* computes each number a second time, in float64 and
without that rounding.  This file keeps these second values beside the tensors' own ones.  A tensor that nothing has
computed yet, such as an input, is exact as it is.

Each exact value is kept with the bits of the real one.  If the bits in memory differ later, something stored there that
the exact run could not follow, and the exact value is unknown.
"""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from harness.engines.torch.torch_seam import is_zeros_without_memory

Array = NDArray[Any]

UNKNOWN = float("nan")
"""The exact value of an element that an exact run cannot follow.  It spreads through whatever is computed from it."""
_BITS: Mapping[int, type[np.signedinteger[Any]]] = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


@dataclass(slots=True, kw_only=True)
class ExactElements:
    """One storage as elements of one floating-point type."""

    raw: Array
    """The storage's own memory, as integers of the element's size."""
    values: Array
    """The exact value of each element, float64."""
    bits: Array
    """The bits that each element had when its exact value was stored."""

    def read(self, index: Array) -> tuple[Array, bool]:
        """Return exact values by element number, NaN where something unknown stored; and True if that is anywhere."""
        values = self.values[index]
        is_stale = self.raw[index] != self.bits[index]
        if not is_stale.any():
            return values, False
        return np.where(is_stale, UNKNOWN, values), True

    def write(self, index: Array, exact: Array) -> None:
        """Store exact values, after the real ones have been stored.  The last of several writes to an element stays."""
        self.values[index] = exact
        self.bits[index] = self.raw[index]


class ExactMemory:
    """The exact values of one case, by storage."""

    def __init__(self) -> None:
        self._storages: dict[int, dict[torch.dtype, ExactElements]] = {}
        self._kept: dict[int, torch.UntypedStorage] = {}
        """Storages that torch made, kept alive so that no address is used twice within a case."""
        self.doubts: dict[str, None] = {}
        """What makes exact values doubtful, in the order in which it was met."""

    def doubt(self, what: str) -> None:
        """Note an operation that the exact run cannot follow, or a decision that rounding alone makes."""
        self.doubts.setdefault(what)

    def elements(self, address: int, size_bytes: int, dtype: torch.dtype) -> ExactElements:
        """Return a living storage as elements of a floating-point type."""
        types = self._storages.setdefault(address, {})
        elements = types.get(dtype)
        count = size_bytes // dtype.itemsize
        if elements is None or len(elements.raw) != count:
            elements = types[dtype] = _exact_as_it_is(address, count, dtype)
        return elements

    def forget(self, tensor: torch.Tensor) -> None:
        """Take a new tensor's elements as exact, whatever its storage's address held before."""
        storage = tensor.untyped_storage()
        self._kept[storage.data_ptr()] = storage
        self._storages.pop(storage.data_ptr(), None)

    def read(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the exact values of a floating-point tensor: a new float64 tensor of its shape, NaN where unknown."""
        if not tensor.numel() or is_zeros_without_memory(tensor):
            return tensor.detach().to(torch.float64)
        elements = self._elements_of(tensor)
        values, raw, bits = (_view(part, tensor) for part in (elements.values, elements.raw, elements.bits))
        return values.clone() if torch.equal(raw, bits) else values.masked_fill(raw != bits, UNKNOWN)

    def write(self, tensor: torch.Tensor, exact: torch.Tensor) -> None:
        """Store the exact values of a floating-point tensor, after its real ones have been stored."""
        if not tensor.numel():
            return
        if self._is_new(tensor):
            self._keep_whole(tensor, exact)
            return
        elements = self._elements_of(tensor)
        _view(elements.values, tensor).copy_(exact)
        _view(elements.bits, tensor).copy_(_view(elements.raw, tensor))

    def _is_new(self, tensor: torch.Tensor) -> bool:
        """Return True if nothing is known yet of the storage, and the tensor fills it."""
        storage = tensor.untyped_storage()
        is_whole = tensor.is_contiguous() and tensor.numel() * tensor.itemsize == storage.nbytes()
        return is_whole and tensor.dtype not in self._storages.get(storage.data_ptr(), {})

    def _keep_whole(self, tensor: torch.Tensor, exact: torch.Tensor) -> None:
        """Store the exact values of a whole storage, without those that it would have as it is."""
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        self._kept[address] = storage
        raw = _integers(address, tensor.numel(), tensor.itemsize)
        values = torch.empty(tensor.shape, dtype=torch.float64).copy_(exact)
        elements = ExactElements(raw=raw, values=values.reshape(-1).numpy(), bits=raw.copy())
        self._storages.setdefault(address, {})[tensor.dtype] = elements

    def _elements_of(self, tensor: torch.Tensor) -> ExactElements:
        storage = tensor.untyped_storage()
        self._kept[storage.data_ptr()] = storage
        return self.elements(storage.data_ptr(), storage.nbytes(), tensor.dtype)


def _integers(address: int, count: int, size: int) -> Array:
    """Return memory as integers of a size in bytes."""
    memory = (ctypes.c_uint8 * (count * size)).from_address(address)
    return np.ctypeslib.as_array(memory).view(_BITS[size])


def _exact_as_it_is(address: int, count: int, dtype: torch.dtype) -> ExactElements:
    raw = _integers(address, count, dtype.itemsize)
    values = torch.from_numpy(raw).view(dtype).to(torch.float64).numpy()
    return ExactElements(raw=raw, values=values.copy() if dtype is torch.float64 else values, bits=raw.copy())


def _view(flat: Array, tensor: torch.Tensor) -> torch.Tensor:
    """Return per-element data of a storage in the form of a tensor in that storage."""
    return torch.from_numpy(flat).as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
