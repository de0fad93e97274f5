"""Chooses the memory of a worker by its sanitizer, and provides memory without redzones for compute-sanitizer.

A redzone is allocated memory, so memcheck would not report a store there.  Poison initialises memory, so initcheck
would not report a read of it.  Under these two tools tensors get neither.
"""

from collections.abc import Mapping

import torch

from harness.engines.cuda.memory.redzones import RedzoneMemory
from harness.engines.cuda.sanitizers.fpsan_runs import TracedMemory
from harness.engines.cuda.sanitizers.gsan_memory import GsanMemory
from harness.engines.cuda.sanitizers.instrumentation import WRITE_ONCE, Instrumenting
from harness.engines.cuda.sanitizers.sanitizer_command import VARIABLE
from harness.model.compute_sanitizer_report import Tool
from harness.model.triton_sanitizer_report import Instrumentation

ALLOCATION_TOOLS = frozenset({Tool.MEMCHECK, Tool.INITCHECK})
"""Tools that check the bounds of allocations, or whether they were written."""


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
    """Allocates exactly each tensor's storage, and leaves torch's own allocations as they are."""

    def to_gpu(self, values: torch.Tensor) -> torch.Tensor:
        """Return a copy on the GPU: same layout, its own storage, and a leaf if `values` is one."""
        storage = values.untyped_storage()
        on_gpu = torch.empty(storage.nbytes(), dtype=torch.uint8).set_(storage).to("cuda").untyped_storage()
        typed = torch.empty(0, dtype=values.dtype, device=on_gpu.device).set_(on_gpu)
        copy = typed.as_strided(values.shape, values.stride(), int(values.storage_offset()))
        return copy.requires_grad_(values.requires_grad)

    def install(self) -> None:
        """Leave torch's factories alone."""
