"""The canary: checks in a process of its own that a GPU stores and computes correctly.

A faulty kernel destroys at most its own process.  If the canary fails as well, the GPU is sick and no kernel is to
blame.  This file is the canary's program too: exit status and last line are its answer.

Workers start with the quick ones of these checks, on fewer elements.  The expected values are computed on the CPU.
Elements are small integers, so results are exact in every order of summation, and in TF32 on tensor cores.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

from harness.engines.cuda.gpus.child_query import Answered, QueryTimedOut, ask
from harness.engines.cuda.gpus.inventory import VISIBLE, RealGpu
from harness.errors import MissingPart

PROGRAM = "harness.engines.cuda.gpus.canary"
CANNOT_CHECK = 4
"""The program's exit status if torch is missing or built without CUDA."""
TIME_LIMIT_S = 90.0
"""Importing torch and creating a context takes five seconds on an idle machine."""
ELEMENTS = 1 << 24
"""64 MiB at 4 bytes each: more than any L2 cache before Blackwell, and little of the GPU's memory."""
CANARY_ELEMENTS = 1 << 20
"""For the checks at the start of a worker."""
MULTIPLIER = 0x9E3779B1 - (1 << 32)
"""Odd, so that every address gets a different value."""
SIZE = 1024
SICK = 3
MEMORY_LIMIT_S = 30.0
RETRY_EVERY_S = 0.5


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


def main() -> int:
    """Return the exit status: 0 if the GPU is healthy."""
    try:
        import torch  # noqa: PLC0415 - that it is missing is one of the answers
    except ImportError as error:
        return _answer(f"{error}: pip install torch", CANNOT_CHECK)
    if torch.version.cuda is None:
        return _answer(f"torch {torch.__version__} is built without CUDA", CANNOT_CHECK)
    try:
        reason = wait_for_memory(lambda: check_memory(to_gpu) or check_sums(to_gpu) or check_products(to_gpu))
    except Exception as error:  # noqa: BLE001 - the process ends here, and this is its answer
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return _answer(reason, SICK) if reason else 0


def wait_for_memory(check: Callable[[], str], limit_s: float = MEMORY_LIMIT_S) -> str:
    """Run a check, and repeat it while the GPU has no memory for it, which other processes may use for a while."""
    deadline = monotonic() + limit_s
    while True:
        try:
            return check()
        except RuntimeError as error:
            if "out of memory" not in str(error):
                raise
            if monotonic() >= deadline:
                return f"its memory has been full for {limit_s:g} s: {str(error).partition(chr(10))[0]}"
        sleep(RETRY_EVERY_S)


def check_memory(to_device: Callable[[Any], Any], elements: int = ELEMENTS) -> str:
    """Return how memory changed the tensors that `to_device` copies there; empty if it did not."""
    import torch  # noqa: PLC0415 - as above

    pattern = torch.arange(elements, dtype=torch.int32) * MULTIPLIER
    for expected in (pattern, ~pattern):
        read_back = to_device(expected).clone().cpu()
        if not torch.equal(read_back, expected):
            return f"{int((read_back != expected).sum())} of {elements} words of memory came back changed"
    return ""


def check_sums(to_device: Callable[[Any], Any], elements: int = ELEMENTS) -> str:
    """Return how a sum of integers that `to_device` copies to the GPU is wrong; empty if it is right."""
    import torch  # noqa: PLC0415 - as above

    expected = 3 * elements * (elements - 1) // 2 + elements
    actual = int((to_device(torch.arange(elements, dtype=torch.int64)) * 3 + 1).sum())
    return "" if actual == expected else f"{elements} integers were added up to {actual} instead of {expected}"


def check_products(to_device: Callable[[Any], Any]) -> str:
    """Return how a matrix product of tensors that `to_device` copies to the GPU is wrong; empty if all are right."""
    import torch  # noqa: PLC0415 - as above

    rows, columns = torch.arange(SIZE)[:, None], torch.arange(SIZE)[None, :]
    left, right = ((3 * rows + 5 * columns) % 7 - 3).double(), ((2 * rows + columns) % 5 - 2).double()
    expected = left @ right
    for precision in ("highest", "high"):
        torch.set_float32_matmul_precision(precision)
        actual = (to_device(left.float()) @ to_device(right.float())).cpu().double()
        if not torch.equal(actual, expected):
            wrong = int((actual != expected).sum())
            return f"{wrong} of {SIZE * SIZE} elements of a matrix product are wrong (float32, precision {precision})"
    return ""


def to_gpu(tensor: Any) -> Any:
    return tensor.to("cuda")


def _answer(reason: str, status: int) -> int:
    print(reason, file=sys.stderr)  # noqa: T201 - the answer
    return status


if __name__ == "__main__":
    sys.exit(main())
