"""The canary: checks in a process of its own that a GPU stores and computes correctly.

A faulty kernel destroys at most its own process.  If the canary fails as well, the GPU is sick and no kernel is to
blame.
"""

from dataclasses import dataclass

from harness.engines.cuda.gpus.child_query import Answered, QueryTimedOut, ask
from harness.engines.cuda.gpus.inventory import VISIBLE, RealGpu
from harness.errors import MissingPart

PROGRAM = "harness.engines.cuda.gpus.canary_program"
CANNOT_CHECK = 4
"""The program's exit status if torch is missing or built without CUDA."""
TIME_LIMIT_S = 90.0
"""Importing torch and creating a context takes five seconds on an idle machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Healthy:
    """All checks passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sick:
    """The GPU should get no cases."""

    reason: str

    def __str__(self) -> str:
        return self.reason


def run_canary(gpu: RealGpu, *, time_limit_s: float = TIME_LIMIT_S) -> Healthy | Sick:
    """Check memory, sums and matrix products on this GPU.

    Raises:
        MissingPart: torch is not installed, or is built without CUDA.
    """
    return assess(ask(PROGRAM, time_limit_s=time_limit_s, environment={VISIBLE: gpu.uuid}))


def assess(answer: Answered | QueryTimedOut) -> Healthy | Sick:
    """Return the state of the GPU, from how the canary's process ended.

    Raises:
        MissingPart: the process had no torch for CUDA.
    """
    match answer:
        case QueryTimedOut() as timeout:
            return Sick(reason=f"the canary gave {timeout}")
        case Answered(status=0):
            return Healthy()
        case Answered(status=status, last_words=words) if status == CANNOT_CHECK:
            raise MissingPart(f"the canary cannot ask the GPU: {words}")
        case Answered(status=status, last_words=words) if status < 0:
            return Sick(reason=f"the canary was killed by signal {-status}: {words}")
        case Answered(last_words=words):
            return Sick(reason=f"the canary failed: {words}")
