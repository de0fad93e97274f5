"""The canary: whether a GPU still computes what every GPU computes, asked of it in a process that does nothing else.

A kernel under test can lose its own process, never a GPU: where the canary fails too, the GPU is sick, and what cases
showed there blames no kernel.
"""

from dataclasses import dataclass

from harness.cuda.gpus.child_query import Answered, QueryTimedOut, ask
from harness.cuda.gpus.inventory import VISIBLE, RealGpu
from harness.errors import MissingPart

PROGRAM = "harness.cuda.gpus.canary_program"
CANNOT_ASK = 4
"""The program's exit status where torch is not there, or not for CUDA."""
TIME_LIMIT_S = 90.0
"""Importing torch and making a context take five seconds on an idle machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Healthy:
    """Memory kept what was written, and products of integers came out right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sick:
    """The GPU should get no cases."""

    reason: str

    def __str__(self) -> str:
        return self.reason


def sing(gpu: RealGpu, *, time_limit_s: float = TIME_LIMIT_S) -> Healthy | Sick:
    """Write patterns, multiply integers and read both back on this GPU.

    Raises:
        MissingPart: torch is not installed, or is built without CUDA.
    """
    return judged(ask(PROGRAM, time_limit_s=time_limit_s, environment={VISIBLE: gpu.uuid}))


def judged(answer: Answered | QueryTimedOut) -> Healthy | Sick:
    """What the program's end says of the GPU.

    Raises:
        MissingPart: nothing, for want of torch.
    """
    match answer:
        case QueryTimedOut() as silent:
            return Sick(reason=f"the canary gave {silent}")
        case Answered(status=0):
            return Healthy()
        case Answered(status=status, last_words=words) if status == CANNOT_ASK:
            raise MissingPart(f"the canary cannot ask the GPU: {words}")
        case Answered(status=status, last_words=words) if status < 0:
            return Sick(reason=f"the canary was killed by signal {-status}: {words}")
        case Answered(last_words=words):
            return Sick(reason=f"the canary failed: {words}")
