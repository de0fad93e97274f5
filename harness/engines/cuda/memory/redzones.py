"""Memory of the hardware GPU with redzones around every tensor, whose pattern reveals out-of-bounds stores.

The redzone pattern is NaN in every floating-point type and -1 in integers, so out-of-bounds loads show in the values.
Uninitialised memory is poisoned as on the virtual GPU.  This module owns what a case allocates, from `to_gpu` to
`forget`.
"""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.utils import dlpack

from harness.engines.torch.torch_seam import RUN, plain_torch
from harness.execution.poison import PATTERNS, SAME_SIZE
from harness.model.run import AddressSpace
from harness.patches import PATCHES

REDZONE_BYTES = 1 << 15
"""On each side of a tensor; a multiple of `ALIGNMENT`."""
ALIGNMENT = 512
"""Alignment of a tensor's first byte, that of torch's allocator."""
ARENA_BYTES = 1 << 20
WORD_BYTES = 8
PATTERN_BYTE = 0xFF
"""The largest byte, so that the minimum of a redzone finds damage."""
ALLOCATED_BY_TORCH = "which torch has made"
"""The reason why a tensor outside of the case's arenas is not checked."""
MOST_CAPTURED_BYTES = 256 << 20
"""Memory between redzones that one capture may allocate.  It is not used again within the capture."""
CACHED_GAP_BYTES = 1 << 20
"""The gaps of layouts up to this size are cached across cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Overwritten cells around one tensor's storage or in its gaps."""

    address: int
    """The address of the storage."""
    region: AddressSpace
    cells: int
    element: int
    """The first such cell, counted in elements from the tensor's first element."""


class RedzoneArena:
    """One allocation for many tensors, filled with the redzone pattern at once.

    Filling a redzone per tensor would be slower.
    """

    def __init__(self, size: int, device: str, pool: object = None, *, is_filled: bool = True) -> None:
        """Allocate the arena, and fill it; `pool` is a memory pool that it lies in and keeps alive."""
        words = _rounded_up(size, WORD_BYTES) // WORD_BYTES
        self._words = _empty((words,), dtype=torch.int64, device=device)
        if is_filled:
            self.fill()
        self.memory = self._words.view(torch.uint8)
        self.address = self.memory.data_ptr()
        self._size = self.memory.numel()
        self._typed: dict[torch.dtype, torch.Tensor] = {}
        self._contents: list[tuple[int, int]] = []
        self.used = 0
        """Bytes handed out so far, redzones included."""
        self.pool = pool  # the last attribute, so that the memory is freed before its pool

    def fill(self) -> None:
        """Write the redzone pattern everywhere."""
        self._words.fill_(-1)

    def contains(self, tensor: torch.Tensor) -> bool:
        return self.address <= tensor.data_ptr() < self.address + self._size

    def has_room(self, size: int) -> bool:
        """Return True if a tensor of `size` bytes and its redzones fit."""
        return self.used + _size_with_redzones(size) <= self._size

    def allocate(self, size: int) -> int:
        """Reserve `size` bytes and their redzones; return the offset of the first byte."""
        begin = self.used + REDZONE_BYTES
        self._contents.append((begin, begin + size))
        self.used += _size_with_redzones(size)
        return begin

    def typed(self, dtype: torch.dtype) -> torch.Tensor:
        """Return the whole arena as elements of one type."""
        if dtype not in self._typed:
            self._typed[dtype] = self.memory.view(dtype)
        return self._typed[dtype]

    def redzones(self) -> Generator[slice]:
        """Yield the byte ranges between the tensors."""
        position = 0
        for begin, end in self._contents:
            yield slice(position, begin)
            position = end
        yield slice(position, self.used)


class _HostBuffer:
    """Host memory to which redzones are copied for inspection.

    Comparing on the GPU is slower, and loading torch's kernels for it takes another 40 ms the first time.
    """

    def __init__(self, *, is_pinned: bool) -> None:
        self._memory = _empty(ARENA_BYTES, dtype=torch.uint8, pin_memory=is_pinned)
        self._bytes = self._memory.numpy()

    def is_damaged(self, arena: RedzoneArena) -> bool:
        """Return True if a redzone of the arena does not hold the pattern; synchronises with the GPU."""
        if arena.used <= ARENA_BYTES:  # one transfer of everything is faster than one per redzone
            copied = self._copy(arena.memory[: arena.used])
            return any(copied[redzone].min() != PATTERN_BYTE for redzone in arena.redzones())
        return any(self._copy(arena.memory[redzone]).min() != PATTERN_BYTE for redzone in arena.redzones())

    def _copy(self, memory: torch.Tensor) -> npt.NDArray[np.uint8]:
        """Return the bytes, at most `ARENA_BYTES`, which are valid until the next call."""
        size = memory.numel()
        self._memory[:size].copy_(memory)
        return self._bytes[:size]


@dataclass(slots=True)
class _Piece:
    """One tensor's part of an arena."""

    arena: RedzoneArena
    begin: int
    """The offset of the content in the arena, in bytes."""
    size: int
    first_byte: int = 0
    """The offset of the tensor's first element in the content."""
    element_size: int = 1
    gaps: torch.Tensor | None = None
    """A mask of the bytes that belong to no element; None if every byte belongs to one."""
    original_content: torch.Tensor | None = None
    """A copy of the content before the case, if there are gaps."""

    @property
    def address(self) -> int:
        """The address of the content, and so of the tensor's storage."""
        return self.arena.address + self.begin

    @property
    def content(self) -> torch.Tensor:
        return self.arena.memory[self.begin : self.begin + self.size]

    def as_contiguous(self, like: torch.Tensor) -> torch.Tensor:
        """Return the content as a tensor like a contiguous one, with a storage of its own."""
        self.element_size = like.element_size()
        typed = self.arena.typed(like.dtype)
        tensor = _as_own_storage(typed.as_strided(like.shape, like.stride(), self.begin // self.element_size))
        # DLPack in torch before 2.10 changes the stride of dims of size 1 to 1.
        return tensor if tensor.stride() == like.stride() else tensor.as_strided(like.shape, like.stride())

    def with_layout(self, like: torch.Tensor) -> torch.Tensor:
        """Return the content as a tensor with the layout of another one and a storage of its own."""
        self.element_size = like.element_size()
        offset = int(like.storage_offset())
        self.first_byte = offset * self.element_size
        storage = _as_own_storage(self.content).untyped_storage()
        empty = _empty(0, dtype=like.dtype, device=self.arena.memory.device)
        return empty.set_(storage, offset, like.shape, like.stride())

    def poison(self, pattern: int) -> None:
        """Fill the content with a bit pattern that no computation produces."""
        begin, end = self.begin // self.element_size, (self.begin + self.size) // self.element_size
        self.arena.typed(SAME_SIZE[self.element_size])[begin:end].fill_(pattern)

    def damaged_gaps(self) -> torch.Tensor | None:
        """Return a mask of the overwritten bytes in gaps; None if there are no gaps."""
        if self.gaps is None or self.original_content is None:
            return None
        return (self.content != self.original_content) & self.gaps


@dataclass(slots=True)
class _Capture:
    """What the capture of a CUDA graph has allocated between redzones so far."""

    arenas: list[RedzoneArena] = field(default_factory=list[RedzoneArena])
    opened: dict[str, RedzoneArena] = field(default_factory=dict[str, RedzoneArena])
    """As `RedzoneMemory._open`."""
    fresh: list[tuple[_Piece, int]] = field(default_factory=list[tuple[_Piece, int]])
    """What is poisoned at the end, with the pattern."""

    @property
    def guarded_bytes(self) -> int:
        return sum(arena.memory.numel() for arena in self.arenas)


class RedzoneMemory:
    """The tensors of one case on the current GPU.  `device` is `"cpu"` in tests."""

    def __init__(self, device: str = "cuda") -> None:
        self._device = device
        self._arenas: list[RedzoneArena] = []
        self._open: dict[str, RedzoneArena] = {}
        """The arenas that have room left, by kind."""
        self._pieces: list[_Piece] = []
        self._host: _HostBuffer | None = None
        self._allocation_lock = Lock()
        self._is_guarding = False
        self._capture: _Capture | None = None

    def to_gpu(self, values: torch.Tensor) -> torch.Tensor:
        """Return a copy on the GPU between redzones: same layout, its own storage, and a leaf if `values` is one."""
        storage = values.untyped_storage()
        size = storage.nbytes()
        if not size:
            return values.detach().to(self._device).requires_grad_(values.requires_grad)
        piece = self._allocate(size, values, is_fresh=False)
        if _is_contiguous(values, size):
            copy = piece.as_contiguous(values)
            copy.copy_(values.detach())
        else:
            copy = piece.with_layout(values)
            content = piece.content
            content.copy_(_empty(0, dtype=torch.uint8, device=values.device).set_(storage))
            piece.gaps = _gaps(values, size, self._device)
            piece.original_content = None if piece.gaps is None else content.clone()
        return copy.requires_grad_(values.requires_grad)

    def to_cpu(self, values: torch.Tensor) -> torch.Tensor:
        """Return a detached copy on the CPU."""
        return values.detach().cpu()

    @contextmanager
    def guarding(self) -> Generator[None]:
        """While active, tensors that torch's factories make on the GPU, in any thread, lie between redzones."""
        self._is_guarding = True
        try:
            yield
        finally:
            self._is_guarding = False

    def begin_capture(self) -> None:
        """Let what a CUDA graph allocates from now on lie between redzones too, in arenas of its own."""
        self._capture = _Capture()

    def end_capture(self) -> object:
        """End that, and fill the arenas; return what must live as long as the graph.

        The capture has run nothing, so the fill overwrites nothing.  In the capture it would be a step of each replay.
        """
        capture, self._capture = self._capture, None
        if capture is None:
            return None
        with plain_torch():
            for arena in capture.arenas:
                arena.fill()
            for piece, pattern in capture.fresh:
                piece.poison(pattern)
        return capture.arenas

    def install(self) -> None:
        """Replace torch's factories until `PATCHES` are undone.

        A torch mode would not do: autograd's threads do not inherit the modes of the calling thread.
        """
        with torch.device("cpu"):
            torch.empty(0)  # torch remembers its factories at the first use of a default device
        for owner, name, is_fresh in _FACTORIES:
            factory = self._wrap_factory(getattr(owner, name), is_fresh=is_fresh)
            PATCHES.replace(owner, name, factory, why="its tensors lie between redzones", releases=RUN)

    def damages(self) -> tuple[Damage, ...]:
        """Return all damage; synchronises with the GPU."""
        guarding, self._is_guarding = self._is_guarding, False
        try:
            if not self._pieces or not self._is_damaged():
                return ()
            with plain_torch():
                return tuple(damage for piece in self._pieces for damage in _damages(piece))
        finally:
            self._is_guarding = guarding

    def forget(self) -> None:
        """Release all memory of the case."""
        self._pieces.clear()
        self._arenas.clear()
        self._open.clear()

    @property
    def count(self) -> int:
        """The number of tensors between redzones."""
        return len(self._pieces)

    @property
    def guarded_bytes(self) -> int:
        """The memory of all arenas."""
        return sum(arena.memory.numel() for arena in self._arenas)

    def forget_first(self, count: int) -> None:
        """Stop to follow the oldest tensors.  Those in use keep their memory."""
        self._pieces = self._pieces[count:]
        kept = {id(piece.arena) for piece in self._pieces}
        self._arenas = [arena for arena in self._arenas if id(arena) in kept]
        self._open = {kind: arena for kind, arena in self._open.items() if id(arena) in kept}

    def _is_damaged(self) -> bool:
        """Return True if anything is damaged.  Details are found afterwards, since damage is rare."""
        with plain_torch():
            self._host = self._host or _HostBuffer(is_pinned=self._device == "cuda")
            if any(map(self._host.is_damaged, self._arenas)):
                return True
            damaged_gaps = [mask for piece in self._pieces if (mask := piece.damaged_gaps()) is not None]
            return bool(torch.cat(damaged_gaps).any()) if damaged_gaps else False

    def launching(self) -> AbstractContextManager[None]:
        """Return the context in which Triton launches a kernel, and may allocate memory itself."""
        return nullcontext()

    def unchecked_reason(self, tensor: torch.Tensor, *, is_stored: bool) -> str:
        """Return why a sanitizer may miss what a kernel does to a tensor; empty if it misses nothing."""
        del tensor, is_stored
        return ""

    def _make_arena(self, size: int, kind: str) -> RedzoneArena:
        del kind
        return RedzoneArena(size, self._device)

    def _kind_of(self, like: torch.Tensor, *, is_fresh: bool) -> str:
        """Return the kind of arena for such tensors; `is_fresh` if they are uninitialised."""
        del like, is_fresh
        return ""

    def _allocate(self, size: int, like: torch.Tensor, *, is_fresh: bool) -> _Piece:
        with self._allocation_lock:  # autograd's threads allocate concurrently
            kind = self._kind_of(like, is_fresh=is_fresh)
            opened = self._open if self._capture is None else self._capture.opened
            arena = opened.get(kind)
            if arena is None or not arena.has_room(size):
                needed = _size_with_redzones(size)
                arena = self._new_arena(max(ARENA_BYTES, needed), kind)
                self._arenas.append(arena)
                if needed <= ARENA_BYTES:
                    opened[kind] = arena
            piece = _Piece(arena, arena.allocate(size), size)
            self._pieces.append(piece)
            return piece

    def _new_arena(self, size: int, kind: str) -> RedzoneArena:
        if self._capture is None:
            return self._make_arena(size, kind)
        arena = RedzoneArena(size, self._device, is_filled=False)
        self._capture.arenas.append(arena)
        return arena

    def _wrap_factory(self, original: Callable[..., Any], *, is_fresh: bool) -> Callable[..., Any]:
        def with_redzones(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():  # TorchDynamo traces the original
                return original(*args, **kwargs)
            tensor = original(*args, **kwargs)
            if not self._is_guarding or not self._is_guarded(tensor):
                return tensor
            is_own = kwargs.get("out") is None  # the caller goes on with the tensor that it passed as `out`
            return self._move_between_redzones(tensor, is_fresh=is_fresh) if is_own else tensor

        with_redzones.__name__ = original.__name__
        return with_redzones

    def _is_guarded(self, tensor: object) -> bool:
        """Return True for a tensor on the GPU; a subclass, as those of compilers, may have no memory."""
        if type(tensor) is not torch.Tensor or tensor.device.type != self._device:
            return False
        if self._capture is None:
            return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
        size = tensor.untyped_storage().nbytes()
        return self._capture.guarded_bytes + size <= MOST_CAPTURED_BYTES and _is_capturing(tensor)

    def _move_between_redzones(self, tensor: torch.Tensor, *, is_fresh: bool) -> torch.Tensor:
        with plain_torch():
            size = tensor.untyped_storage().nbytes()
            if not size:
                return tensor
            piece = self._allocate(size, tensor, is_fresh=is_fresh)
            moved = piece.as_contiguous(tensor) if _is_contiguous(tensor, size) else piece.with_layout(tensor)
            if not is_fresh:
                moved.copy_(tensor.detach())
            elif (pattern := PATTERNS.get(tensor.dtype)) is not None:
                if self._capture is None:
                    piece.poison(pattern)
                else:
                    self._capture.fresh.append((piece, pattern))
            return moved.requires_grad_(tensor.requires_grad)


def _is_capturing(tensor: torch.Tensor) -> bool:
    """Return True if the tensor was allocated for the graph; the CPU of tests has no streams."""
    return not tensor.is_cuda or torch.cuda.is_current_stream_capturing()


def _rounded_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _size_with_redzones(size: int) -> int:
    """Return the bytes that a tensor of `size` bytes and both its redzones take."""
    return REDZONE_BYTES + _rounded_up(size, ALIGNMENT) + REDZONE_BYTES


def _is_contiguous(values: torch.Tensor, size: int) -> bool:
    """Return True if the storage of `size` bytes holds the tensor's elements in order and nothing else."""
    is_whole = values.numel() * values.element_size() == size and values.is_contiguous()
    return is_whole and values.dtype in _DLPACK_TYPES


def _as_own_storage(piece: torch.Tensor) -> torch.Tensor:
    """Return the same memory as a storage of its own, which keeps the arena alive.

    Libraries check whether tensors share a storage, so a view of the arena would not do.
    """
    capsule = dlpack.to_dlpack(piece)  # pyright: ignore[reportPrivateImportUsage] - documented, and not in __all__
    return dlpack.from_dlpack(capsule)


class _Layout(NamedTuple):
    """A tensor's layout in its storage."""

    shape: torch.Size
    stride: tuple[int, ...]
    offset: int
    element_size: int
    size: int
    """The size of the storage, in bytes."""


def _gaps(values: torch.Tensor, size: int, device: str) -> torch.Tensor | None:
    """Return a mask of the storage's bytes that belong to no element; None if every byte belongs to one."""
    layout = _Layout(values.shape, values.stride(), int(values.storage_offset()), values.element_size(), size)
    if size > CACHED_GAP_BYTES:
        return _compute_gaps(layout, device, on=values.device)
    return _cached_gaps(layout, device)


def _compute_gaps(layout: _Layout, device: str, *, on: torch.device | str = "cpu") -> torch.Tensor | None:
    covered = torch.zeros(layout.size // layout.element_size, dtype=torch.bool, device=on)
    covered.as_strided(layout.shape, layout.stride, layout.offset).fill_(True)  # noqa: FBT003 - torch's
    return None if bool(covered.all()) else (~covered).repeat_interleave(layout.element_size).to(device)


_cached_gaps = lru_cache(maxsize=64)(_compute_gaps)


def _damages(piece: _Piece) -> Generator[Damage]:
    begin = piece.begin - REDZONE_BYTES
    damaged_bytes = piece.arena.memory[begin : begin + _size_with_redzones(piece.size)] != PATTERN_BYTE
    damaged_bytes[REDZONE_BYTES : REDZONE_BYTES + piece.size] = False
    yield from _damage_in(piece, damaged_bytes, REDZONE_BYTES, AddressSpace.OUTSIDE_STORAGE)
    if (mask := piece.damaged_gaps()) is not None:
        yield from _damage_in(piece, mask, 0, AddressSpace.IN_GAP)


def _damage_in(piece: _Piece, mask: torch.Tensor, content: int, region: AddressSpace) -> Generator[Damage]:
    """Yield the damage that a mask of bytes shows; `content` is the offset of the content in the mask."""
    offsets = mask.nonzero()[:, 0].cpu() - content - piece.first_byte
    if offsets.numel():
        elements = torch.unique(torch.div(offsets, piece.element_size, rounding_mode="floor"))
        yield Damage(address=piece.address, region=region, cells=int(elements.numel()), element=int(elements[0]))


_empty = torch.empty  # taken before `install` replaces them
_DLPACK_TYPES = frozenset({*PATTERNS, torch.uint8, torch.int8, torch.bool})
"""Types that DLPack supports in every torch release."""
_FACTORIES: tuple[tuple[Any, str, bool], ...] = (
    *((torch, name, True) for name in ("empty", "empty_like", "empty_strided")),
    *((torch, name, False) for name in ("zeros", "zeros_like", "ones", "ones_like", "full", "full_like")),
    *((torch.Tensor, name, True) for name in ("new_empty", "new_empty_strided")),
    *((torch.Tensor, name, False) for name in ("new_zeros", "new_ones", "new_full")),
)
"""Owner and name of each factory, and True if its result is uninitialised."""
