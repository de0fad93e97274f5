"""What the canary's process runs on the one GPU that it is shown; its exit status and last line are its answer.

A process that runs cases begins with the quick ones of these checks, on few elements.

The expected values are computed on the CPU.  Elements are small integers, so that every order of summation, and
products in TF32 on tensor cores too, give them exactly.
"""

import sys
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

from harness.cuda.gpus.canary import CANNOT_ASK

ELEMENTS = 1 << 24
"""Of 4 bytes: 64 MiB, more than any L2 cache that is not Blackwell's, and little beside what else uses the GPU."""
CANARY_ELEMENTS = 1 << 20
"""For the look with which a process that runs cases begins."""
SPREADING = 0x9E3779B1 - (1 << 32)
"""An odd number, so that every address gets a value of its own."""
SIZE = 1024
SICK = 3
ROOM_LIMIT_S = 30.0
LOOK_EVERY_S = 0.5


def main() -> int:
    """The exit status: 0 where the GPU is healthy."""
    try:
        import torch  # noqa: PLC0415 - that it is missing is one of the answers
    except ImportError as error:
        return _say(f"{error}: pip install torch", CANNOT_ASK)
    if torch.version.cuda is None:
        return _say(f"torch {torch.__version__} is built without CUDA", CANNOT_ASK)
    try:
        reason = given_room(lambda: kept_patterns(on_gpu) or sums(on_gpu) or products(on_gpu))
    except Exception as error:  # noqa: BLE001 - the process ends here, and this is its answer
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return _say(reason, SICK) if reason else 0


def given_room(check: Callable[[], str], limit_s: float = ROOM_LIMIT_S) -> str:
    """What a check says once there is memory for it: others, cases among them, may have all there is for a while."""
    deadline = monotonic() + limit_s
    while True:
        try:
            return check()
        except RuntimeError as error:
            if "out of memory" not in str(error):
                raise
            if monotonic() >= deadline:
                return f"its memory has been full for {limit_s:g} s: {str(error).partition(chr(10))[0]}"
        sleep(LOOK_EVERY_S)


def kept_patterns(put: Callable[[Any], Any], elements: int = ELEMENTS) -> str:
    """What memory did not keep of tensors that `put` puts there; empty where it kept all."""
    import torch  # noqa: PLC0415 - as above

    pattern = torch.arange(elements, dtype=torch.int32) * SPREADING
    for wanted in (pattern, ~pattern):
        kept = put(wanted).clone().cpu()
        if not torch.equal(kept, wanted):
            return f"{int((kept != wanted).sum())} of {elements} words of memory came back changed"
    return ""


def sums(put: Callable[[Any], Any], elements: int = ELEMENTS) -> str:
    """Whether integers that `put` puts there are added up wrongly; empty where they are not."""
    import torch  # noqa: PLC0415 - as above

    wanted = 3 * elements * (elements - 1) // 2 + elements
    got = int((put(torch.arange(elements, dtype=torch.int64)) * 3 + 1).sum())
    return "" if got == wanted else f"{elements} integers were added up to {got} instead of {wanted}"


def products(put: Callable[[Any], Any]) -> str:
    """Which product was wrong of tensors that `put` puts there; empty where none was."""
    import torch  # noqa: PLC0415 - as above

    rows, columns = torch.arange(SIZE)[:, None], torch.arange(SIZE)[None, :]
    left, right = ((3 * rows + 5 * columns) % 7 - 3).double(), ((2 * rows + columns) % 5 - 2).double()
    wanted = left @ right
    for precision in ("highest", "high"):
        torch.set_float32_matmul_precision(precision)
        got = (put(left.float()) @ put(right.float())).cpu().double()
        if not torch.equal(got, wanted):
            wrong = int((got != wanted).sum())
            return f"{wrong} of {SIZE * SIZE} elements of a matrix product are wrong (float32, precision {precision})"
    return ""


def on_gpu(tensor: Any) -> Any:
    """Where a real canary puts its tensors."""
    return tensor.to("cuda")


def _say(reason: str, status: int) -> int:
    print(reason, file=sys.stderr)  # noqa: T201 - the answer
    return status


if __name__ == "__main__":
    sys.exit(main())
