"""Memory that Triton's GSan watches: redzones and poison as usual, in memory pools of GSan's own.

GSan tracks words of four bytes, so two programs that each store half a word would seem to race.  In pools for memory
that is written once it tracks bytes.  So tensors of smaller elements are watched only there, and otherwise reported as
unchecked.
"""

from collections.abc import Generator
from contextlib import contextmanager

import torch

from harness.engines.cuda.memory.redzones import ALLOCATED_BY_TORCH, RedzoneArena, RedzoneMemory
from harness.engines.cuda.sanitizers.instrumented_builds import memory_pool

WORD_BYTES = 4
WRITTEN_ONCE, ANY, UNWATCHED = "to be written once", "any", "unwatched"
"""The kinds of arenas."""


class GsanMemory(RedzoneMemory):
    """The tensors of one case; GSan's history of each cell begins with the case."""

    def __init__(self, *, write_once: bool) -> None:
        """`write_once`: the library must write what it allocates uninitialised just once."""
        super().__init__()
        self._write_once = write_once
        self._permanent: RedzoneArena | None = None
        """Kept for the whole process: GSan launches no kernel before some of its memory was allocated."""

    @contextmanager
    def launching(self) -> Generator[None]:
        """While active, allocations are GSan's own, which outlive the case and so get no redzones."""
        was, self._is_guarding = self._is_guarding, False
        try:
            self._permanent = self._permanent or self._make_arena(WORD_BYTES, ANY)
            yield
        finally:
            self._is_guarding = was

    def unchecked_reason(self, tensor: torch.Tensor, *, is_stored: bool) -> str:
        """Return why GSan may miss a store to a tensor, or blame another one; empty if it sees each.

        Loads alone never race.
        """
        if not is_stored or not tensor.numel():
            return ""
        if any(arena.pool is not None and arena.contains(tensor) for arena in self._arenas):
            return ""
        if tensor.element_size() < WORD_BYTES:
            return f"whose elements take {tensor.element_size()} of the {WORD_BYTES} bytes that GSan keeps account of"
        return ALLOCATED_BY_TORCH

    def _make_arena(self, size: int, kind: str) -> RedzoneArena:
        if kind == UNWATCHED:
            return RedzoneArena(size, self._device)
        pool = memory_pool(write_once=kind == WRITTEN_ONCE)
        with torch.cuda.use_mem_pool(pool):
            return RedzoneArena(size, self._device, pool)

    def _kind_of(self, like: torch.Tensor, *, is_fresh: bool) -> str:
        if self._write_once and is_fresh:
            return WRITTEN_ONCE
        return ANY if like.element_size() >= WORD_BYTES else UNWATCHED
