"""Poison for fresh memory: `torch.empty` returns a bit pattern that no computation makes.

A cell that still holds the pattern was never written.  For floating-point types the pattern is a NaN with a special
payload, so its use also shows in results.  One-byte types have no unused pattern.  Their memory is filled with one
value, so that it never holds the results of an earlier call, but no read of it is judged.
"""

import ctypes
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.overrides import TorchFunctionMode

from harness.engines.torch.torch_seam import plain_torch

PATTERNS: Mapping[torch.dtype, int] = {
    torch.float64: 0x7FF4_A55A_0BAD_F00D,
    torch.float32: 0x7FA5_5A0D,
    torch.bfloat16: 0x7FA5,
    torch.float16: 0x7D5A,
    torch.int64: 0x5AA5_0BAD_F00D_A55A,
    torch.int32: 0x5AA5_F00D,
    torch.int16: 0x5AA5,
}

FILL_OF_BYTES = 0xA5
"""What fresh memory of one-byte types holds; that of booleans is False."""

INTEGER_PATTERNS = frozenset(pattern for dtype, pattern in PATTERNS.items() if not dtype.is_floating_point)

SAME_SIZE: Mapping[int, torch.dtype] = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.int8}
"""By the bytes of an element, the integers that hold its bits."""


@dataclass(frozen=True, slots=True)
class Poison:
    """The bit pattern that fills a fresh storage, as an unsigned integer of `size` bytes."""

    pattern: int
    size: int


class FreshMemory(TorchFunctionMode):
    """While active, poisons tensors of `torch.empty` and similar functions, and remembers their storages.

    The storages are kept alive until `forget`, so that no address is allocated twice within a case.  Beyond
    `limit_bytes` the oldest are forgotten: reads of them are not judged any more.
    """

    def __init__(self, limit_bytes: int = sys.maxsize) -> None:
        super().__init__()
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._fresh: dict[int, tuple[Poison, torch.UntypedStorage]] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call the function, and poison its result if it is fresh memory."""
        if func in _QUESTIONS and type(args[0]) is torch.Tensor and not torch.compiler.is_compiling():
            with plain_torch():  # past other modes, which have no other answer
                return func(*args, **kwargs) if kwargs else func(*args)
        result = self._call(func, args, kwargs or {})
        if func in _FACTORIES and isinstance(result, torch.Tensor):
            self._poison(result)
        return result

    def _call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call a function of torch."""
        return func(*args, **kwargs)

    def poison_of(self, address: int) -> Poison | None:
        """Return the poison of the storage at this address; None for initialised memory."""
        fresh = self._fresh.get(address)
        return fresh[0] if fresh else None

    def adopt(self, tensor: torch.Tensor) -> None:
        """Poison a tensor whose memory another library allocated, and which nothing has written yet."""
        self._poison(tensor)

    @property
    def count(self) -> int:
        """The number of storages that are remembered."""
        return len(self._fresh)

    def forget(self, oldest: int | None = None) -> None:
        """Release so many of the oldest storages; all of them by default."""
        for address in list(self._fresh)[:oldest]:
            self._forget(address)

    def _forget(self, address: int) -> None:
        _, storage = self._fresh.pop(address)
        self._bytes -= storage.nbytes()

    def _poison(self, tensor: torch.Tensor) -> None:
        pattern = PATTERNS.get(tensor.dtype)
        storage, size = tensor.untyped_storage(), tensor.element_size()
        if not storage.nbytes() or storage.device.type != "cpu" or (pattern is None and size > 1):
            return
        # The whole storage, since a strided tensor's gaps are poisoned too.
        if pattern is None:
            ctypes.memset(storage.data_ptr(), 0 if tensor.dtype is torch.bool else FILL_OF_BYTES, storage.nbytes())
            return
        poison = Poison(pattern, size)
        elements_of(storage, size).fill(pattern)
        self._remember(storage, poison)

    def _remember(self, storage: torch.UntypedStorage, poison: Poison) -> None:
        if storage.data_ptr() not in self._fresh:
            self._bytes += storage.nbytes()
        self._fresh[storage.data_ptr()] = (poison, storage)
        while self._bytes > self._limit_bytes:
            self._forget(next(iter(self._fresh)))


_FACTORIES = frozenset(
    {
        torch.empty,
        torch.empty_like,
        torch.empty_strided,
        torch.Tensor.new_empty,
        torch.Tensor.new_empty_strided,
    }
)


_QUESTIONS = frozenset(
    {
        *(getattr(torch.Tensor, name).__get__ for name in ("dtype", "shape", "requires_grad", "is_nested")),
        *(torch.Tensor.size, torch.Tensor.stride, torch.Tensor.dim, torch.Tensor.numel, torch.Tensor.element_size),
        *(torch.Tensor.data_ptr, torch.Tensor.is_contiguous),
    }
)
"""Questions about a tensor that have one answer on every device, and read no element.  Autotuners ask hundreds."""


def elements_of(storage: torch.UntypedStorage, size: int) -> npt.NDArray[Any]:
    """Return the memory of a storage as integers of `size` bytes, without torch, whose modes would see it."""
    memory = (ctypes.c_uint8 * (storage.nbytes() // size * size)).from_address(storage.data_ptr())
    return np.ctypeslib.as_array(memory).view(f"u{size}")


def count_poison(values: torch.Tensor) -> tuple[int, tuple[int, ...] | None]:
    """Return the number of elements that still hold the poison, and the index of the first."""
    fresh = still_fresh(values)
    if fresh is None:
        return 0, None
    count = int(fresh.sum())
    if not count:
        return 0, None
    first = int(fresh.reshape(-1).to(torch.uint8).argmax())
    return count, tuple(int(part) for part in torch.unravel_index(torch.tensor(first), values.shape))


def still_fresh(values: torch.Tensor) -> torch.Tensor | None:
    """Return the mask of elements that still hold the poison; None for an empty tensor, or a type without poison."""
    pattern = PATTERNS.get(values.dtype)
    if pattern is None or not values.numel():
        return None
    return values.detach().contiguous().view(SAME_SIZE[values.element_size()]) == pattern
