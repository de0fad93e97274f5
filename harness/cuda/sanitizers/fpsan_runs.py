"""FpSan's runs: a case computed in integers twice, with two autotune configs of one kernel.

FpSan's integers add and multiply exactly, in any order: so a config, which changes only the order, changes no bit.
They are compared otherwise than numbers are, know no infinity, and atomics add them as if they were floating-point:
what depends on that is not judged.
"""

import re
from collections.abc import Mapping, Sequence

import torch

from harness.cuda.memory.redzones import TORCHS, GuardedMemory
from harness.model.paired_run import launch_of
from harness.model.run import Launch
from harness.model.triton_sanitizer_report import Differing, Exact
from harness.ops.execution_hooks import Writer

NUMBERS = re.compile(
    r"arith\.(?:maximumf|maxnumf|minimumf|minnumf)\b|tt\.atomic_rmw fadd\b"
    r"|\b0x(?:7C00|FC00|7F80|FF80|7F800000|FF800000)\b"
)
"""Of TTIR: the larger of two numbers, atomic sums, and what is infinite in float16, bfloat16 or float32."""

Bits = Mapping[str, tuple[str, Writer]]
"""By result, a digest of its bits and who stored it."""


class TracedMemory(GuardedMemory):
    """Tells of numbers that torch has made: it adds them up in an order of its own, and as floating-point numbers."""

    def unwatched(self, tensor: torch.Tensor, *, is_stored: bool) -> str:
        """Why a tensor's bits may depend on more than on what kernels compute; empty where they do not."""
        del is_stored
        if not tensor.is_floating_point() or not tensor.numel():
            return ""
        return "" if any(arena.holds(tensor) for arena in self._arenas) else TORCHS


def compared(kernel: str, launches: tuple[Sequence[Launch], Sequence[Launch]], first: Bits, second: Bits) -> Exact:
    """What two runs with other configs of a kernel come to, in the results that kernels stored themselves."""
    stored = {name: writer for name, (_, writer) in first.items() if writer is not None and name in second}
    before, after = (launch_of(some, kernel) for some in launches)
    return Exact(
        kernel=kernel,
        configs=(before.config if before else "", after.config if after else ""),
        compared=tuple(stored),
        differing=tuple(
            Differing(name=name, writer=writer) for name, writer in stored.items() if second[name][0] != first[name][0]
        ),
    )
