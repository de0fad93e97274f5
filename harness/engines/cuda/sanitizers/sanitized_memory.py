"""The memory of a worker, by its sanitizer."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

import torch

from harness.engines.cuda.memory.redzones import ALLOCATED_BY_TORCH, RedzoneArena, RedzoneMemory
from harness.engines.cuda.sanitizers.instrumentation import WRITE_ONCE, Instrumenting
from harness.engines.cuda.sanitizers.instrumented_builds import memory_pool
from harness.engines.cuda.sanitizers.sanitizer_command import VARIABLE
from harness.model.compute_sanitizer_report import Tool
from harness.model.triton_sanitizer_report import Instrumentation

ALLOCATION_TOOLS = frozenset({Tool.MEMCHECK, Tool.INITCHECK})
"""Tools that check the bounds of allocations, or whether they were written."""
WORD_BYTES = 4
WRITTEN_ONCE, ANY, UNWATCHED = "to be written once", "any", "unwatched"
"""The kinds of arenas."""


def memory_for(instrumentation: Instrumenting | None, environment: Mapping[str, str]) -> RedzoneMemory:
    """Return the memory of a worker with this sanitizer of Triton's and this environment."""
    match instrumentation:
        case Instrumenting(mode=Instrumentation.GSAN, options=options):
            return GsanMemory(write_once=WRITE_ONCE in options)
        case Instrumenting(mode=Instrumentation.FPSAN):
            return TracedMemory()
        case _:
            return PlainMemory() if environment.get(VARIABLE, "") in ALLOCATION_TOOLS else RedzoneMemory()


class PlainMemory(RedzoneMemory):
    """Allocates exactly each tensor's storage, and leaves torch's own allocations as they are, for compute-sanitizer.

    A redzone is allocated memory, so memcheck would not report a store there.  Poison initialises memory, so initcheck
    would not report a read of it.
    """

    def to_gpu(self, values: torch.Tensor) -> torch.Tensor:
        """Return a copy on the GPU: same layout, its own storage, and a leaf if `values` is one."""
        storage = values.untyped_storage()
        on_gpu = torch.empty(storage.nbytes(), dtype=torch.uint8).set_(storage).to("cuda").untyped_storage()
        typed = torch.empty(0, dtype=values.dtype, device=on_gpu.device).set_(on_gpu)
        copy = typed.as_strided(values.shape, values.stride(), int(values.storage_offset()))
        return copy.requires_grad_(values.requires_grad)

    def install(self) -> None:
        """Leave torch's factories alone."""


class GsanMemory(RedzoneMemory):
    """The tensors of one case, in memory pools of GSan's own: its history of each cell begins with the case.

    GSan tracks words of four bytes, so two programs that each store half a word would seem to race.  In pools for
    memory that is written once it tracks bytes.  So tensors of smaller elements are watched only there, and otherwise
    reported as unchecked.
    """

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


class TracedMemory(RedzoneMemory):
    """Reports floating-point tensors that torch computed: torch adds floats, in an order of its own."""

    def unchecked_reason(self, tensor: torch.Tensor, *, is_stored: bool) -> str:
        """Return why the bits of a tensor may depend on more than the kernels; empty if they do not."""
        del is_stored
        if not tensor.is_floating_point() or not tensor.numel():
            return ""
        return "" if any(arena.contains(tensor) for arena in self._arenas) else ALLOCATED_BY_TORCH
