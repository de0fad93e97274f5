"""The resources of a kernel for host code that calls `warmup` and reads them before it launches.

The virtual GPU's pipeline ends after TTIR, which does not show resources.  So each kernel that is warmed up is compiled
completely, once.  For other kernels, registers, spills and shared memory stay 0.
"""

from collections.abc import Callable, Mapping
from typing import Any

from triton.runtime.jit import JITFunction

from harness.engines.triton.kernel_facts import options_of
from harness.engines.triton.triton_releases import TESTED
from harness.errors import CannotExecute
from harness.model.kernel_resources import Resources
from harness.patches import PATCHES

SPILL_BYTES = 4
"""The size of one spill, as Triton's NVIDIA driver counts spills."""


def report_resources_at_warmup(
    compile_now: Callable[[str, Mapping[str, Any]], Resources], record_usage: Callable[[str, int, int], object]
) -> None:
    """Make `JITFunction.warmup` return kernels with their resources, in this process.

    `record_usage` is called with TTIR, registers and spills, before a kernel with that text is loaded.
    """
    known: dict[tuple[str, str], Resources] = {}
    warm_up = JITFunction.warmup

    def warmed(self: Any, *args: Any, **kwargs: Any) -> Any:
        kernel: Any = warm_up(self, *args, **kwargs)
        ttir, options = kernel.asm["ttir"], options_of(kernel.metadata)
        key = (ttir, str(options))
        if key not in known:
            known[key] = compile_now(ttir, options)
        resources = known[key]
        if reason := resources.failure or resources.unknown:
            raise CannotExecute(f"the resources of {kernel.name}, which host code reads ({reason})")
        record_usage(ttir, resources.registers_per_thread, resources.spill_bytes // SPILL_BYTES)
        kernel.metadata = kernel.metadata._replace(shared=resources.shared_bytes)
        kernel.module = None  # load a kernel again that was launched before, so that it reads the usage
        return kernel

    why = "show host code the registers, spills and shared memory that it reads"
    PATCHES.replace(JITFunction, "warmup", warmed, why=why, releases=TESTED)
