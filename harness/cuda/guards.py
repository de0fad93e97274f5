"""Memory of a real GPU with bands around every tensor, whose filling shows stores that land outside.

Bands are filled with bits that are NaN in every floating-point type and -1 in integers, so that a load from there shows
in the values.  Fresh memory is poisoned as on the virtual GPU.  Owns what a case allocates, from `lend` to `forget`.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from harness.model.run import Region
from harness.ops.execute import plain_torch
from harness.ops.poison import PATTERNS, SAME_SIZE

BAND_BYTES = 1 << 15
"""On each side; a multiple of 512, so that the tensor is aligned as the allocator aligns."""
FILL = 0xFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Cells around or within one tensor's storage that something has overwritten."""

    address: int
    """Of the storage."""
    region: Region
    cells: int
    element: int
    """From the tensor's first element, in units of its type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guarded:
    whole: torch.Tensor
    """uint8: band, content, band."""
    first_byte: int
    """Of the tensor's first element, from the beginning of `whole`."""
    element_size: int
    gaps: torch.Tensor | None = None
    """Which bytes of the content belong to no element; None where all do."""
    content: torch.Tensor | None = None
    """What stood there, where there are gaps."""


class GuardedMemory:
    """The tensors of one case on the current GPU."""

    def __init__(self) -> None:
        self._guarded: dict[int, _Guarded] = {}
        self._is_watching = False

    def lend(self, values: torch.Tensor) -> torch.Tensor:
        """A copy on the GPU, laid out alike in a storage of its own, NaN around it; a leaf if `values` is one."""
        storage = values.untyped_storage()
        raw = _empty(0, dtype=torch.uint8).set_(storage)
        gaps = _gaps(values, storage.nbytes())
        whole = self._band(storage.nbytes())
        content = whole[BAND_BYTES : BAND_BYTES + storage.nbytes()]
        content.copy_(raw)
        lent = _typed(whole, values)
        self._guarded[whole.data_ptr()] = _Guarded(
            whole=whole,
            first_byte=BAND_BYTES + int(values.storage_offset()) * values.element_size(),
            element_size=values.element_size(),
            gaps=None if gaps is None else gaps.to(whole.device),
            content=None if gaps is None else content.clone(),
        )
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
                return tuple(damage for address, one in self._guarded.items() for damage in _damages(address, one))
        finally:
            self._is_watching = watching

    def forget(self) -> None:
        """Let go of all memory."""
        self._guarded.clear()

    def _is_damaged(self) -> bool:
        """In one go, since almost nothing ever is."""
        with plain_torch():
            bands = [
                band for one in self._guarded.values() for band in (one.whole[:BAND_BYTES], one.whole[-BAND_BYTES:])
            ]
            torn = (torch.cat(bands) != FILL).any()
            for one in self._guarded.values():
                if one.gaps is not None and one.content is not None:
                    torn = torn | ((one.whole[BAND_BYTES:-BAND_BYTES] != one.content) & one.gaps).any()
            return bool(torn)

    def _band(self, size: int) -> torch.Tensor:
        return _full((BAND_BYTES + size + BAND_BYTES,), FILL, dtype=torch.uint8, device="cuda")

    def _guarding(self, original: Callable[..., Any], *, is_fresh: bool) -> Callable[..., Any]:
        def made_between_bands(*args: Any, **kwargs: Any) -> Any:
            made = original(*args, **kwargs)
            if not self._is_watching or not isinstance(made, torch.Tensor) or not made.is_cuda:
                return made
            return self._between_bands(made, is_fresh=is_fresh)

        made_between_bands.__name__ = original.__name__
        return made_between_bands

    def _between_bands(self, made: torch.Tensor, *, is_fresh: bool) -> torch.Tensor:
        with plain_torch(), torch.no_grad():
            size = made.untyped_storage().nbytes()
            whole = self._band(size)
            moved = _typed(whole, made)
            pattern = PATTERNS.get(made.dtype)
            if not is_fresh:
                moved.copy_(made)
            elif pattern is not None and size:
                content = whole[BAND_BYTES : BAND_BYTES + size]
                content.view(SAME_SIZE[made.element_size()]).fill_(pattern)
            first = BAND_BYTES + int(made.storage_offset()) * made.element_size()
            self._guarded[whole.data_ptr()] = _Guarded(whole=whole, first_byte=first, element_size=made.element_size())
            return moved.requires_grad_(made.requires_grad)


def _gaps(values: torch.Tensor, size: int) -> torch.Tensor | None:
    """Which of so many bytes of a storage belong to no element of the tensor; None where all do."""
    if values.numel() * values.element_size() == size and values.is_contiguous():
        return None
    covered = torch.zeros(size // values.element_size(), dtype=torch.bool)
    if covered.numel():
        covered.as_strided(values.shape, values.stride(), values.storage_offset()).fill_(True)  # noqa: FBT003 - torch's
    return None if bool(covered.all()) else (~covered).repeat_interleave(values.element_size())


def _typed(whole: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The content as a tensor like another one."""
    size = like.element_size()
    typed = _empty(0, dtype=like.dtype, device=whole.device).set_(whole.untyped_storage())
    return typed.as_strided(like.shape, like.stride(), BAND_BYTES // size + int(like.storage_offset()))


def _damages(address: int, one: _Guarded) -> Generator[Damage]:
    bands = torch.ones_like(one.whole, dtype=torch.bool)
    bands[BAND_BYTES:-BAND_BYTES] = False
    torn = (one.whole != FILL) & bands
    yield from _damage(address, one, torn, Region.OUTSIDE_STORAGE)
    if one.gaps is not None and one.content is not None:
        torn = torch.zeros_like(bands)
        torn[BAND_BYTES:-BAND_BYTES] = (one.whole[BAND_BYTES:-BAND_BYTES] != one.content) & one.gaps
        yield from _damage(address, one, torn, Region.IN_GAP)


def _damage(address: int, one: _Guarded, torn: torch.Tensor, region: Region) -> Generator[Damage]:
    places = torn.nonzero()[:, 0].cpu()
    if places.numel():
        elements = torch.unique(torch.div(places - one.first_byte, one.element_size, rounding_mode="floor"))
        yield Damage(address=address, region=region, cells=int(elements.numel()), element=int(elements[0]))


_empty, _full = torch.empty, torch.full
_FACTORIES: tuple[tuple[Any, str, bool], ...] = (
    *((torch, name, True) for name in ("empty", "empty_like", "empty_strided")),
    *((torch, name, False) for name in ("zeros", "zeros_like", "ones", "ones_like", "full", "full_like")),
    *((torch.Tensor, name, True) for name in ("new_empty", "new_empty_strided")),
    *((torch.Tensor, name, False) for name in ("new_zeros", "new_ones", "new_full")),
)
"""Owner, name, and whether what it hands out is uninitialised."""
