"""Fresh memory, and which elements of it nothing has written yet.

Memory that nothing has written holds its poison.  So no writer needs to be followed: kernels, torch's operators and
any other code replace the poison by what they write.  A storage without poison is written for good, and costs nothing
from then on.  One-byte types have no poison, and are not known.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch

from harness.engines.torch.torch_seam import plain_torch, without_dispatch_modes
from harness.execution.case_execution import calling_line
from harness.execution.poison import FreshMemory, Poison, elements_of
from harness.model.run import Launch, Source

MOST_LOST_BYTES = 1 << 28
"""Memory beyond which lost contents stay."""
MOST_SCANNED_BYTES = 1 << 30
"""A storage that stays unwritten in part is looked at until it has been read so often.  Then it is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastStore:
    """The launch that stored to a storage last."""

    launch: Launch
    index: int
    """Its index among the launches of the case."""
    argument: str
    is_to_copy: bool = False
    """It stored to a copy of the memory, made while that was not written."""


@dataclass(slots=True, kw_only=True, eq=False)
class Allocation:
    """One call of `torch.empty` or a similar function."""

    source: Source | None
    last_store: LastStore | None = None
    overwritten_at: Source | None = None
    """The line that replays a CUDA graph which has overwritten the memory."""
    scanned_bytes: int = 0
    is_reported: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwritten:
    """The elements of a tensor that nothing has written."""

    allocation: Allocation
    poison: Poison
    dtype: torch.dtype
    mask: torch.Tensor
    """Of the tensor's shape, True for at least one element; in memory of its own."""


class UnwrittenMemory(FreshMemory):
    """Fresh memory that knows its allocations, and copies of memory that nothing has written."""

    def __init__(self, limit_bytes: int = sys.maxsize) -> None:
        super().__init__(limit_bytes)
        self._unfinished: dict[int, Allocation] = {}
        """By address, the storages that may hold poison."""
        self._copies: set[int] = set()
        """Those that hold a copy of the poison of another allocation."""

    def stored(self, address: int, store: LastStore) -> None:
        """Note a launch that stores to the storage at this address."""
        allocation = self._unfinished.get(address)
        if allocation is None:
            return
        if address not in self._copies:
            allocation.last_store = store
        elif allocation.last_store is None or allocation.last_store.is_to_copy:
            allocation.last_store = replace(store, is_to_copy=True)

    def may_hold_poison(self, tensors: Iterable[torch.Tensor]) -> bool:
        """Return True if the storage of a tensor is not known to be written to the end."""
        with plain_torch():
            return any(_address(tensor) in self._unfinished for tensor in tensors)

    def unwritten(self, tensor: torch.Tensor) -> Unwritten | None:
        """Return the elements of the tensor that nothing has written; None if there are none."""
        address = _address(tensor)
        allocation, poison = self._unfinished.get(address), self.poison_of(address)
        if allocation is None or poison is None or not tensor.numel():
            return None
        storage = tensor.untyped_storage()
        fresh = elements_of(storage, poison.size) == poison.pattern
        allocation.scanned_bytes += storage.nbytes()
        if not fresh.any() or allocation.scanned_bytes > MOST_SCANNED_BYTES:
            del self._unfinished[address]
        mask = _of_tensor(torch.from_numpy(fresh), poison.size, tensor)
        return Unwritten(allocation=allocation, poison=poison, dtype=tensor.dtype, mask=mask) if mask.any() else None

    def keep(self, tensor: torch.Tensor, allocation: Allocation, poison: Poison) -> None:
        """Follow the storage of a tensor, if it holds a copy of the poison of this allocation."""
        storage = tensor.untyped_storage()
        if self.may_poison(tensor, poison) and (elements_of(storage, poison.size) == poison.pattern).any():
            self._remember(storage, poison)
            if self._unfinished.get(storage.data_ptr()) is not allocation:
                self._unfinished[storage.data_ptr()] = allocation
                self._copies.add(storage.data_ptr())

    def may_poison(self, tensor: torch.Tensor, poison: Poison) -> bool:
        """Return True if the storage of a tensor has memory, and no other poison."""
        address = _address(tensor)
        return bool(address) and self.poison_of(address) in (None, poison)

    def calling_line(self) -> Source | None:
        return calling_line()

    def lose(self, tensor: torch.Tensor, allocated_at: Source | None, *, is_overwritten: bool) -> None:
        """Poison memory whose contents are lost: a replay overwrites it, or a capture has not run what writes it."""
        with plain_torch(), without_dispatch_modes():
            address = _address(tensor)
            if tensor.untyped_storage().nbytes() > MOST_LOST_BYTES:
                return
            self._poison(tensor)
            if address in self._unfinished:
                replayed_at = calling_line() if is_overwritten else None
                self._unfinished[address] = Allocation(source=allocated_at, overwritten_at=replayed_at)

    def _poison(self, tensor: torch.Tensor) -> None:
        super()._poison(tensor)
        with plain_torch():
            address = _address(tensor)
        if self.poison_of(address) is not None:
            self._unfinished[address] = Allocation(source=calling_line())

    def _forget(self, address: int) -> None:
        super()._forget(address)
        self._unfinished.pop(address, None)
        self._copies.discard(address)


def _address(tensor: torch.Tensor) -> int:
    """Return the address of the tensor's storage; 0 for a tensor without memory of its own on the CPU."""
    try:
        storage = tensor.untyped_storage()
        return storage.data_ptr() if storage.device.type == "cpu" else 0
    except (RuntimeError, NotImplementedError):  # a sparse tensor, or a wrapper of another one
        return 0


def _of_tensor(fresh: torch.Tensor, size: int, tensor: torch.Tensor) -> torch.Tensor:
    """Return the flags of a storage's elements of `size` bytes as flags of the tensor's elements."""
    if size == tensor.itemsize:
        return fresh.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
    strides = (*(stride * tensor.itemsize for stride in tensor.stride()), 1)
    by_bytes = torch.zeros(tensor.untyped_storage().nbytes(), dtype=torch.bool)
    by_bytes[: len(fresh) * size] = fresh.repeat_interleave(size)
    offset = tensor.storage_offset() * tensor.itemsize
    return by_bytes.as_strided((*tensor.size(), tensor.itemsize), strides, offset).any(dim=-1)
