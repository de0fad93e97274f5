"""Memory that Triton's GSan watches: the same bands and poison, in pools of its own.

It keeps account of words of four bytes, so that two programs that store half a word each seem to race; of memory that
is to be written once, of bytes.  So what has smaller elements is watched there alone, and otherwise said not to be.
"""

from collections.abc import Generator
from contextlib import contextmanager

import torch

from harness.cuda.memory.redzones import TORCHS, GuardedMemory, RedzoneArena
from harness.cuda.sanitizers.instrumented_builds import pool

WORD_BYTES = 4
ONCE, ANY, UNWATCHED = "to be written once", "any", "unwatched"


class GsanMemory(GuardedMemory):
    """The tensors of one case, each of whose cells has a history that begins with the case."""

    def __init__(self, *, write_once: bool) -> None:
        """`write_once` is said of what the library allocates without writing to it."""
        super().__init__()
        self._write_once = write_once
        self._first: RedzoneArena | None = None
        """Memory of the process: GSan launches no kernel before some of its own was allocated, which a case may not."""

    @contextmanager
    def launching(self) -> Generator[None]:
        """What GSan allocates for a launch outlives the case."""
        was, self._is_watching = self._is_watching, False
        try:
            self._first = self._first or self._arena(WORD_BYTES, ANY)
            yield
        finally:
            self._is_watching = was

    def unwatched(self, tensor: torch.Tensor, *, is_stored: bool) -> str:
        """Why GSan may miss, or take for another's, a store to a tensor; empty where it sees each.

        What is only loaded races with nobody.
        """
        if not is_stored or not tensor.numel():
            return ""
        if any(arena.pool is not None and arena.holds(tensor) for arena in self._arenas):
            return ""
        if tensor.element_size() < WORD_BYTES:
            return f"whose elements take {tensor.element_size()} of the {WORD_BYTES} bytes that GSan keeps account of"
        return TORCHS

    def _arena(self, size: int, kind: str) -> RedzoneArena:
        if kind == UNWATCHED:
            return RedzoneArena(size, self._device)
        own = pool(write_once=kind == ONCE)
        with torch.cuda.use_mem_pool(own):
            return RedzoneArena(size, self._device, own)

    def _kind(self, like: torch.Tensor, *, is_fresh: bool) -> str:
        if self._write_once and is_fresh:
            return ONCE
        return ANY if like.element_size() >= WORD_BYTES else UNWATCHED
