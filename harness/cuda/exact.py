"""FpSan's runs: a case computed in integers twice, with two autotune configs of one kernel.

FpSan's integers add and multiply exactly, in any order: so a config, which changes only the order, changes no bit.
They are compared otherwise than numbers are, know no infinity, and atomics add them as if they were floating-point:
what depends on that is not judged.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from harness.cuda.guards import GuardedMemory
from harness.model.case import Case
from harness.model.instrumented import Differing, Exact
from harness.model.run import Launch
from harness.ops.engine_parts import Writer

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
        if not tensor.is_floating_point() or not tensor.numel() or self._lies_within(tensor):
            return ""
        return "which torch has made"


def with_another_config(case: Case, launches: Sequence[Launch]) -> tuple[str, Case] | None:
    """An autotuned kernel, and the case with another config of it; None where no kernel is autotuned."""
    tuned = {launch.kernel: launch for launch in launches if launch.config_count > 1}
    if not tuned:
        return None
    launch = tuned[sorted(tuned)[case.seed % len(tuned)]]
    index = (launch.config_index + 1 + case.seed % (launch.config_count - 1)) % launch.config_count
    return launch.kernel, replace(case, configs={**case.configs, launch.kernel: index})


def compared(kernel: str, launches: Sequence[tuple[Launch, ...]], first: Bits, second: Bits) -> Exact:
    """What two runs with other configs of a kernel come to, in the results that kernels stored themselves."""
    names = tuple(name for name, (_, writer) in first.items() if writer is not None and name in second)
    return Exact(
        kernel=kernel,
        configs=(_config_of(launches[0], kernel), _config_of(launches[1], kernel)),
        compared=names,
        differing=tuple(
            Differing(name=name, writer=writer)
            for name, (digest, writer) in first.items()
            if writer is not None and name in second and second[name][0] != digest
        ),
    )


def _config_of(launches: Sequence[Launch], kernel: str) -> str:
    return next((launch.config for launch in launches if launch.kernel == kernel), "")
