"""What a kernel takes of its GPU, for host code that compiles it by `warmup` and reads that before it launches.

The pipeline ends after TTIR, and a launch needs none of these figures.  So they come from the whole pipeline, once for
each kernel that is asked for in this way; of others, registers, spills and shared memory stay 0.
"""

from collections.abc import Callable, Mapping
from typing import Any

from triton.runtime.jit import JITFunction

from harness.errors import CannotExecute
from harness.model.kernel_resources import Resources
from harness.virtual.driver.kernel_facts import options_of

SPILL_BYTES = 4
"""What NVIDIA's driver in Triton counts as one spill."""


def tell_what_kernels_take(
    compile_now: Callable[[str, Mapping[str, Any]], Resources], tell: Callable[[str, int, int], object]
) -> None:
    """Have `JITFunction.warmup` give kernels that know what they take, for as long as this process lives.

    `tell` is called with TTIR, registers and spills, before a kernel with that text is loaded.
    """
    known: dict[tuple[str, str], Resources] = {}
    warm_up = JITFunction.warmup

    def warmed(self: Any, *args: Any, **kwargs: Any) -> Any:
        kernel: Any = warm_up(self, *args, **kwargs)
        ttir, options = kernel.asm["ttir"], options_of(kernel.metadata)
        key = (ttir, str(options))
        if key not in known:
            known[key] = compile_now(ttir, options)
        takes = known[key]
        if reason := takes.failure or takes.unknown:
            raise CannotExecute(f"what {kernel.name} takes, which host code asks for ({reason})")
        tell(ttir, takes.registers_per_thread, takes.spill_bytes // SPILL_BYTES)
        kernel.metadata = kernel.metadata._replace(shared=takes.shared_bytes)
        kernel.module = None  # where it was launched before, it is loaded once more
        return kernel

    JITFunction.warmup = warmed
