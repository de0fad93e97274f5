"""Memory of a real GPU as the library would have it: for a process under compute-sanitizer, whose bounds are the truth.

A band around a tensor is memory too, so that memcheck is silent on what lands there; and what is poisoned is not
uninitialised any more.  So under these two tools nothing is put around tensors or into them.
"""

import os
from collections.abc import Mapping

import torch

from harness.cuda.memory.redzones import GuardedMemory
from harness.cuda.sanitizers.fpsan_runs import TracedMemory
from harness.cuda.sanitizers.gsan_memory import GsanMemory
from harness.cuda.sanitizers.instrumentation import WRITE_ONCE, Instrumenting
from harness.cuda.sanitizers.sanitizer_command import VARIABLE
from harness.model.compute_sanitizer_report import Tool
from harness.model.triton_sanitizer_report import Instrumentation

KNOW_ALLOCATIONS = frozenset({Tool.MEMCHECK, Tool.INITCHECK})
"""The tools that look at where an allocation ends, or whether it was written."""


def memory_of_this_process(
    checked: Instrumenting | None = None, environment: Mapping[str, str] = os.environ
) -> GuardedMemory:
    """Guarded memory, unless the process runs under a tool that guards better; where GSan watches it if so asked."""
    match checked:
        case Instrumenting(mode=Instrumentation.GSAN, options=options):
            return GsanMemory(write_once=WRITE_ONCE in options)
        case Instrumenting(mode=Instrumentation.FPSAN):
            return TracedMemory()
        case _:
            return UnguardedMemory() if environment.get(VARIABLE, "") in KNOW_ALLOCATIONS else GuardedMemory()


class UnguardedMemory(GuardedMemory):
    """Each tensor of the case in an allocation of exactly its storage; what torch allocates stays as it is."""

    def lend(self, values: torch.Tensor) -> torch.Tensor:
        """A copy on the GPU, laid out alike in a storage of its own; a leaf if `values` is one."""
        storage = values.untyped_storage()
        there = torch.empty(storage.nbytes(), dtype=torch.uint8).set_(storage).to("cuda").untyped_storage()
        typed = torch.empty(0, dtype=values.dtype, device=there.device).set_(there)
        lent = typed.as_strided(values.shape, values.stride(), int(values.storage_offset()))
        return lent.requires_grad_(values.requires_grad)

    def install(self) -> None:
        """Leave torch's factories alone."""
