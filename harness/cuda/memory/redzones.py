"""Memory of a real GPU with bands around every tensor, whose filling shows stores that land outside.

Bands are filled with bits that are NaN in every floating-point type and -1 in integers, so that a load from there shows
in the values.  Fresh memory is poisoned as on the virtual GPU.  Owns what a case allocates, from `lend` to `forget`.
"""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.utils import dlpack

from harness.model.run import AddressSpace
from harness.ops.execution import plain_torch
from harness.ops.poison import PATTERNS, SAME_SIZE

BAND_BYTES = 1 << 15
"""On each side; a multiple of `ALIGNMENT`."""
ALIGNMENT = 512
"""Of a tensor's first byte, as torch's allocator aligns."""
ARENA_BYTES = 1 << 20
WORD_BYTES = 8
FILL = 0xFF
"""The largest of all bytes."""
TORCHS = "which torch has made"
"""Why a tensor is not watched that lies in none of the case's arenas."""
KEPT_BYTES = 1 << 20
"""Gaps of layouts of so many bytes are kept from case to case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Cells around or within one tensor's storage that something has overwritten."""

    address: int
    """Of the storage."""
    region: AddressSpace
    cells: int
    element: int
    """From the tensor's first element, in units of its type."""


class RedzoneArena:
    """One allocation, filled, of which tensors get pieces with bands between them: filling each piece takes longer."""

    def __init__(self, size: int, device: str, pool: object = None) -> None:
        """`pool` is kept as long as the memory, which lies in it."""
        words = _rounded_up(size, WORD_BYTES) // WORD_BYTES
        self.memory = _full((words,), -1, dtype=torch.int64, device=device).view(torch.uint8)
        self.address = self.memory.data_ptr()
        self._size = self.memory.numel()
        self._typed: dict[torch.dtype, torch.Tensor] = {}
        self._contents: list[tuple[int, int]] = []
        self.used = 0
        """Bytes that have been given out, bands among them."""
        self.pool = pool  # the last, so that the memory goes before it

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor lies in it."""
        return self.address <= tensor.data_ptr() < self.address + self._size

    def has_room(self, size: int) -> bool:
        """Whether content of so many bytes fits."""
        return self.used + _with_bands(size) <= self._size

    def place(self, size: int) -> int:
        """Where content of so many bytes begins."""
        begin = self.used + BAND_BYTES
        self._contents.append((begin, begin + size))
        self.used += _with_bands(size)
        return begin

    def typed(self, dtype: torch.dtype) -> torch.Tensor:
        """All of it as elements of one type."""
        if dtype not in self._typed:
            self._typed[dtype] = self.memory.view(dtype)
        return self._typed[dtype]

    def bands(self) -> Generator[slice]:
        """Where the bytes lie that are around the contents."""
        position = 0
        for begin, end in self._contents:
            yield slice(position, begin)
            position = end
        yield slice(position, self.used)


class _Host:
    """Memory on the host, to which bands are copied to be looked at.

    On the GPU that takes longer, and the first time some 40 ms, in which torch loads its code.
    """

    def __init__(self, *, is_pinned: bool) -> None:
        self._memory = _empty(ARENA_BYTES, dtype=torch.uint8, pin_memory=is_pinned)
        self._bytes = self._memory.numpy()

    def is_torn(self, arena: RedzoneArena) -> bool:
        """Whether anything but its filling lies in an arena's bands; waits for the GPU."""
        if arena.used <= ARENA_BYTES:
            everything = self._fetched(arena.memory[: arena.used])
            return any(everything[band].min() != FILL for band in arena.bands())
        return any(self._fetched(arena.memory[band]).min() != FILL for band in arena.bands())

    def _fetched(self, memory: torch.Tensor) -> npt.NDArray[np.uint8]:
        """Its bytes, until others are fetched; no more than there is room for."""
        size = memory.numel()
        self._memory[:size].copy_(memory)
        return self._bytes[:size]


@dataclass(slots=True)
class _Guarded:
    """One tensor's piece of an arena."""

    arena: RedzoneArena
    begin: int
    """Of the content, in bytes."""
    size: int
    first_byte: int = 0
    """Of the tensor's first element, within the content."""
    element_size: int = 1
    gaps: torch.Tensor | None = None
    """Which bytes of the content belong to no element; None where all do."""
    kept: torch.Tensor | None = None
    """What stood there, where there are gaps."""

    @property
    def address(self) -> int:
        """Of the content, and so of the tensor's storage."""
        return self.arena.address + self.begin

    @property
    def content(self) -> torch.Tensor:
        """Its bytes."""
        return self.arena.memory[self.begin : self.begin + self.size]

    def plain(self, like: torch.Tensor) -> torch.Tensor:
        """The content as a tensor like a plain one, in a storage of its own."""
        self.element_size = like.element_size()
        typed = self.arena.typed(like.dtype)
        made = _own(typed.as_strided(like.shape, like.stride(), self.begin // self.element_size))
        # Of sizes of 1, DLPack in torch before 2.10 makes the stride 1.
        return made if made.stride() == like.stride() else made.as_strided(like.shape, like.stride())

    def laid_out(self, like: torch.Tensor) -> torch.Tensor:
        """The content as a tensor like another one, in a storage of its own."""
        self.element_size = like.element_size()
        offset = int(like.storage_offset())
        self.first_byte = offset * self.element_size
        storage = _own(self.content).untyped_storage()
        empty = _empty(0, dtype=like.dtype, device=self.arena.memory.device)
        return empty.set_(storage, offset, like.shape, like.stride())

    def poison(self, pattern: int) -> None:
        """Fill the content with what no computation makes."""
        begin, end = self.begin // self.element_size, (self.begin + self.size) // self.element_size
        self.arena.typed(SAME_SIZE[self.element_size])[begin:end].fill_(pattern)

    def torn_gaps(self) -> torch.Tensor | None:
        """Which bytes of the gaps are not as they were; None where there are no gaps."""
        return None if self.gaps is None or self.kept is None else (self.content != self.kept) & self.gaps


class GuardedMemory:
    """The tensors of one case on the current GPU."""

    def __init__(self, device: str = "cuda") -> None:
        self._device = device
        self._arenas: list[RedzoneArena] = []
        self._open: dict[str, RedzoneArena] = {}
        """Those that have room left, by their kind."""
        self._guarded: list[_Guarded] = []
        self._host: _Host | None = None
        self._placing = Lock()
        self._is_watching = False

    def lend(self, values: torch.Tensor) -> torch.Tensor:
        """A copy on the GPU, laid out alike in a storage of its own, NaN around it; a leaf if `values` is one."""
        storage = values.untyped_storage()
        size = storage.nbytes()
        if not size:
            return values.detach().to(self._device).requires_grad_(values.requires_grad)
        piece = self._piece(size, values, is_fresh=False)
        if _is_plain(values, size):
            lent = piece.plain(values)
            lent.copy_(values.detach())
        else:
            lent = piece.laid_out(values)
            content = piece.content
            content.copy_(_empty(0, dtype=torch.uint8).set_(storage))
            piece.gaps = _gaps(values, size, self._device)
            piece.kept = None if piece.gaps is None else content.clone()
        return lent.requires_grad_(values.requires_grad)

    def fetch(self, values: torch.Tensor) -> torch.Tensor:
        """A copy on the CPU, cut off from any graph."""
        return values.detach().cpu()

    @contextmanager
    def watching(self) -> Generator[None]:
        """While active, what torch allocates by name on the GPU, in any thread, lies between bands."""
        self._is_watching = True
        try:
            yield
        finally:
            self._is_watching = False

    def install(self) -> None:
        """Stand in for torch's factories in this process, for good: autograd's threads know no modes of others."""
        for owner, name, is_fresh in _FACTORIES:
            setattr(owner, name, self._guarding(getattr(owner, name), is_fresh=is_fresh))

    def damages(self) -> tuple[Damage, ...]:
        """What is not as it was filled; waits for the GPU."""
        watching, self._is_watching = self._is_watching, False
        try:
            if not self._guarded or not self._is_damaged():
                return ()
            with plain_torch():
                return tuple(damage for one in self._guarded for damage in _damages(one))
        finally:
            self._is_watching = watching

    def forget(self) -> None:
        """Let go of all memory."""
        self._guarded.clear()
        self._arenas.clear()
        self._open.clear()

    def _is_damaged(self) -> bool:
        """Whether anything is: almost nothing ever is, so what it is, is found out afterwards."""
        with plain_torch():
            self._host = self._host or _Host(is_pinned=self._device == "cuda")
            if any(map(self._host.is_torn, self._arenas)):
                return True
            torn_gaps = [torn for one in self._guarded if (torn := one.torn_gaps()) is not None]
            return bool(torch.cat(torn_gaps).any()) if torn_gaps else False

    def launching(self) -> AbstractContextManager[None]:
        """While Triton launches a kernel, which may allocate what it needs itself."""
        return nullcontext()

    def unwatched(self, tensor: torch.Tensor, *, is_stored: bool) -> str:
        """Why what a kernel does with a tensor is not watched where it should be; empty where nothing is missed."""
        del tensor, is_stored
        return ""

    def _arena(self, size: int, kind: str) -> RedzoneArena:
        """Memory for tensors of a kind."""
        del kind
        return RedzoneArena(size, self._device)

    def _kind(self, like: torch.Tensor, *, is_fresh: bool) -> str:
        """What arena such tensors lie in; `is_fresh` where nobody writes to them before a kernel does."""
        del like, is_fresh
        return ""

    def _piece(self, size: int, like: torch.Tensor, *, is_fresh: bool) -> _Guarded:
        """Room for content of so many bytes."""
        with self._placing:  # autograd's threads may ask at once
            kind = self._kind(like, is_fresh=is_fresh)
            arena = self._open.get(kind)
            if arena is None or not arena.has_room(size):
                needed = _with_bands(size)
                arena = self._arena(max(ARENA_BYTES, needed), kind)
                self._arenas.append(arena)
                if needed <= ARENA_BYTES:
                    self._open[kind] = arena
            piece = _Guarded(arena, arena.place(size), size)
            self._guarded.append(piece)
            return piece

    def _guarding(self, original: Callable[..., Any], *, is_fresh: bool) -> Callable[..., Any]:
        def made_between_bands(*args: Any, **kwargs: Any) -> Any:
            made = original(*args, **kwargs)
            if not self._is_watching or not isinstance(made, torch.Tensor) or made.device.type != self._device:
                return made
            is_own = kwargs.get("out") is None  # else the caller goes on with what it gave
            return self._between_bands(made, is_fresh=is_fresh) if is_own else made

        made_between_bands.__name__ = original.__name__
        return made_between_bands

    def _between_bands(self, made: torch.Tensor, *, is_fresh: bool) -> torch.Tensor:
        with plain_torch():
            size = made.untyped_storage().nbytes()
            if not size:
                return made
            piece = self._piece(size, made, is_fresh=is_fresh)
            moved = piece.plain(made) if _is_plain(made, size) else piece.laid_out(made)
            if not is_fresh:
                moved.copy_(made.detach())
            elif (pattern := PATTERNS.get(made.dtype)) is not None:
                piece.poison(pattern)
            return moved.requires_grad_(made.requires_grad)


def _rounded_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _with_bands(size: int) -> int:
    """Bytes that content of so many takes between its bands, both included."""
    return BAND_BYTES + _rounded_up(size, ALIGNMENT) + BAND_BYTES


def _is_plain(values: torch.Tensor, size: int) -> bool:
    """Whether a tensor's elements, one after the other, are all that its storage of so many bytes holds."""
    is_whole = values.numel() * values.element_size() == size and values.is_contiguous()
    return is_whole and values.dtype in _EXCHANGED


def _own(piece: torch.Tensor) -> torch.Tensor:
    """The same memory as a storage of its own, since libraries ask what shares one; keeps the arena alive."""
    capsule = dlpack.to_dlpack(piece)  # pyright: ignore[reportPrivateImportUsage] - documented, and not in __all__
    return dlpack.from_dlpack(capsule)


class _Layout(NamedTuple):
    """How a tensor lies in its storage."""

    shape: torch.Size
    stride: tuple[int, ...]
    offset: int
    element_size: int
    size: int
    """Of the storage, in bytes."""


def _gaps(values: torch.Tensor, size: int, device: str) -> torch.Tensor | None:
    """Which bytes of a storage of so many belong to no element of the tensor; None where all do."""
    layout = _Layout(values.shape, values.stride(), int(values.storage_offset()), values.element_size(), size)
    return (_gaps_of if size > KEPT_BYTES else _kept_gaps_of)(layout, device)


def _gaps_of(layout: _Layout, device: str) -> torch.Tensor | None:
    covered = torch.zeros(layout.size // layout.element_size, dtype=torch.bool)
    covered.as_strided(layout.shape, layout.stride, layout.offset).fill_(True)  # noqa: FBT003 - torch's
    return None if bool(covered.all()) else (~covered).repeat_interleave(layout.element_size).to(device)


_kept_gaps_of = lru_cache(maxsize=64)(_gaps_of)


def _damages(one: _Guarded) -> Generator[Damage]:
    begin = one.begin - BAND_BYTES
    around = one.arena.memory[begin : begin + _with_bands(one.size)] != FILL
    around[BAND_BYTES : BAND_BYTES + one.size] = False
    yield from _damage(one, around, BAND_BYTES, AddressSpace.OUTSIDE_STORAGE)
    if (torn := one.torn_gaps()) is not None:
        yield from _damage(one, torn, 0, AddressSpace.IN_GAP)


def _damage(one: _Guarded, torn: torch.Tensor, content: int, region: AddressSpace) -> Generator[Damage]:
    """Of the bytes that are torn, among which the content begins there."""
    places = torn.nonzero()[:, 0].cpu() - content - one.first_byte
    if places.numel():
        elements = torch.unique(torch.div(places, one.element_size, rounding_mode="floor"))
        yield Damage(address=one.address, region=region, cells=int(elements.numel()), element=int(elements[0]))


_empty, _full = torch.empty, torch.full
_EXCHANGED = frozenset({*PATTERNS, torch.uint8, torch.int8, torch.bool})
"""Types that every torch's DLPack knows."""
_FACTORIES: tuple[tuple[Any, str, bool], ...] = (
    *((torch, name, True) for name in ("empty", "empty_like", "empty_strided")),
    *((torch, name, False) for name in ("zeros", "zeros_like", "ones", "ones_like", "full", "full_like")),
    *((torch.Tensor, name, True) for name in ("new_empty", "new_empty_strided")),
    *((torch.Tensor, name, False) for name in ("new_zeros", "new_ones", "new_full")),
)
"""Owner, name, and whether what it hands out is uninitialised."""
