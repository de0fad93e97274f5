"""Checks of the scratch memory that Triton's allocator returns for a launch.

Triton asks for `grid * CTAs * bytes of a program`.  The allocator returns any object with a `data_ptr()`.  Nothing in
Triton checks its size or alignment, or whether the memory is free for the kernel.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from harness.engines.torch.torch_seam import is_held_once, plain_torch
from harness.engines.triton.triton_seam import has_allocator
from harness.engines.ttir.ir import Module
from harness.execution import flight_recorder
from harness.execution.poison import PATTERNS, SAME_SIZE, Poison
from harness.model.run import AccessSite, ScratchFault, ScratchFlaw, Source, UninitialisedRead

SCRATCH_OPERATIONS = frozenset({"tt.make_tensor_descriptor", "ttng.tensormap_create"})
"""Operations that may need scratch memory.  Only kernels with one are compiled completely before they are launched."""
GARBAGE = 0xA5


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchRequest:
    """What Triton asks the allocator for."""

    site: AccessSite
    """The launch, and the operation that needs the memory."""
    size_bytes: int
    align: int
    bytes_per_program: int

    def fault(self, what: ScratchFlaw, **more: Any) -> ScratchFault:
        return ScratchFault(
            site=self.site,
            what=what,
            needed_bytes=self.size_bytes,
            align=self.align,
            bytes_per_program=self.bytes_per_program,
            **more,
        )


@dataclass(frozen=True, slots=True)
class _Extent:
    """Memory from `begin` to `end`, addresses in bytes, of one storage."""

    begin: int
    end: int
    storage: torch.UntypedStorage

    def holds(self, address: int) -> bool:
        return self.begin <= address < self.end


class Scratch:
    """The memory that an allocator returned for one launch.  It stays alive until this object is dropped."""

    def __init__(self, request: ScratchRequest, allocate: Callable[[], object]) -> None:
        """Call the allocator.

        Raises:
            Exception: what the allocator raises.
        """
        self.request = request
        with _Made() as memory:
            self.buffer = allocate()
        self._address = _address_of(self.buffer)
        self._extents = memory.extents
        self._shared: tuple[str, torch.Tensor] | None = None
        self._poisoned: torch.Tensor | None = None

    def flaws(self, arguments: Mapping[str, torch.Tensor], *, is_emulated: bool) -> Iterator[ScratchFault]:
        """Yield what is wrong with the memory before the launch.

        Args:
            arguments: the kernel's tensors by name.
            is_emulated: storages begin where the CPU's allocator put them; on a GPU they would be aligned.
        """
        needed, align = self.request.size_bytes, self.request.align
        extent = self._extent()
        if self._address == 0:
            yield self.request.fault(ScratchFlaw.TOO_SMALL, has=0)
            return
        off_by = (self._address - (extent.begin if extent and is_emulated else 0)) % align
        if off_by and (extent is not None or not is_emulated):
            yield self.request.fault(ScratchFlaw.MISALIGNED, has=off_by)
        if extent is None:
            return
        if (has := extent.end - self._address) < needed:
            yield self.request.fault(ScratchFlaw.TOO_SMALL, has=has)
        if not isinstance(self.buffer, torch.Tensor) and _is_freed(extent.storage):
            yield self.request.fault(ScratchFlaw.FREED)
        for name, tensor in arguments.items():
            other = _extent_of(tensor)
            if self._address < other.end and other.begin < self._address + needed:
                self._shared = (name, tensor)
                yield self.request.fault(ScratchFlaw.SHARED, other=f"argument {name}")
                return

    def fill(self) -> None:
        """On a GPU, fill a tensor with a pattern, so that what the kernel reads before it is stored is garbage."""
        if isinstance(self.buffer, torch.Tensor):
            with plain_torch():
                extent = _extent_of(self.buffer)
                whole = torch.empty(0, dtype=torch.uint8, device=self.buffer.device).set_(extent.storage)
                first = self._address - extent.begin
                whole[first : first + self.request.size_bytes].fill_(GARBAGE)

    def poison(self) -> Mapping[int, Poison]:
        """Fill the memory with a pattern, as far as it belongs to an argument; return the poison by storage.

        The kernel's own descriptors would overwrite it there.
        """
        if self._shared is None:
            return {}
        _, tensor = self._shared
        pattern = PATTERNS.get(tensor.dtype)
        if pattern is None:
            return {}
        extent, size = _extent_of(tensor), tensor.element_size()
        first = max(0, self._address - extent.begin) // size
        last = min(extent.end, self._address + self.request.size_bytes) - extent.begin
        with plain_torch():
            whole = torch.empty(0, dtype=SAME_SIZE[size]).set_(extent.storage)
            self._poisoned = whole[first : last // size]
            self._poisoned.fill_(pattern)
        return {extent.begin: Poison(pattern, size)}

    def accesses(self, reads: Iterator[UninitialisedRead]) -> Iterator[ScratchFault]:
        """Yield what the kernel's own loads and stores did to the memory; `reads` are its loads of the pattern."""
        if self._shared is None or self._poisoned is None:
            return
        name, tensor = self._shared
        for read in reads:
            if read.site.argument == name:
                fault = self.request.fault(ScratchFlaw.READ, other=f"argument {name}", programs=(read.program,))
                yield replace(fault, site=read.site)
        with plain_torch():
            changed = (self._poisoned != PATTERNS[tensor.dtype]).nonzero().flatten().tolist()
        if changed:
            size, per_program = tensor.element_size(), self.request.bytes_per_program
            owner = changed[0] * size // per_program
            yield self.request.fault(
                ScratchFlaw.STORED, other=f"argument {name}", has=len(changed) * size, programs=(owner,)
            )

    def _extent(self) -> _Extent | None:
        """Return the storage of the memory; None if it is unknown."""
        if isinstance(self.buffer, torch.Tensor):
            return _extent_of(self.buffer)
        return next((extent for extent in reversed(self._extents) if extent.holds(self._address)), None)


def allocated(
    request: ScratchRequest, allocate: Callable[[], object], elsewhere: str, note: Callable[[ScratchFault], object]
) -> Scratch:
    """Return the memory that the allocator returns; `note` gets the fault if this thread has no allocator.

    `elsewhere` says where one is set instead; empty if nowhere as far as is known.

    Raises:
        Exception: what the allocator raises.
    """
    try:
        return Scratch(request, allocate)
    except RuntimeError:
        if not has_allocator():
            note(request.fault(ScratchFlaw.MISSING, other=elsewhere))
            flight_recorder.lacking_allocator(request.site.kernel, request.size_bytes, elsewhere)
        raise


def scratch_source(module: Module) -> Source | None:
    """Return the line of the first operation of a kernel that needs scratch memory."""
    operations = module.kernel.body.all_operations()
    first = next((operation for operation in operations if operation.name in SCRATCH_OPERATIONS), None)
    return module.source(first.location) if first else None


class _Made(TorchFunctionMode):
    """While active, keeps the storages of the tensors that torch makes."""

    def __init__(self) -> None:
        super().__init__()
        self.extents: list[_Extent] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            with suppress(RuntimeError):  # a tensor without storage
                self.extents.append(_extent_of(result))
        return result


def _extent_of(tensor: torch.Tensor) -> _Extent:
    with plain_torch():
        storage = tensor.untyped_storage()
        begin = storage.data_ptr()
        return _Extent(begin, begin + storage.nbytes(), storage)


def _address_of(buffer: Any) -> int:
    with plain_torch():
        return 0 if buffer is None else int(buffer.data_ptr())


def _is_freed(storage: torch.UntypedStorage) -> bool:
    """Return True if nothing but this module holds the storage."""
    return is_held_once(storage)
