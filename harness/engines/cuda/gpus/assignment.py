"""Assigns a GPU to each process of a pool: a healthy one with the fewest processes, in turn."""

import sys
from collections.abc import Callable, Sequence
from threading import Lock

from harness.engines.cuda.gpus.inventory import RealGpu
from harness.errors import GpuUnavailable

IN_QUARANTINE = "is in quarantine"


class Quarantine:
    """The sick GPUs of a session with their reasons.  They get no more cases, because their failures blame no kernel.

    A GPU never leaves.  Thread-safe.
    """

    def __init__(self, report: Callable[[str], object] | None = None) -> None:
        self._report = report or _print_to_stderr
        self._reasons: dict[str, str] = {}
        self._lock = Lock()

    def add(self, gpu: RealGpu, reason: str) -> None:
        """Add a GPU and report its reason in one line; later reasons are ignored."""
        with self._lock:
            if gpu.uuid in self._reasons:
                return
            self._reasons[gpu.uuid] = reason
        self._report(
            f"{gpu} {IN_QUARANTINE} for this session: {reason}. Its cases go to other GPUs; no kernel is blamed"
        )

    def __contains__(self, gpu: RealGpu) -> bool:
        with self._lock:
            return gpu.uuid in self._reasons

    @property
    def reasons(self) -> tuple[tuple[str, str], ...]:
        """UUID and reason of each, in order of arrival."""
        with self._lock:
            return tuple(self._reasons.items())


class Assignment:
    """Assigns leased GPUs to processes.  Thread-safe."""

    def __init__(self, gpus: Sequence[RealGpu], quarantine: Quarantine | None = None) -> None:
        if not gpus:
            raise GpuUnavailable("there is no GPU to share out: lease one first")
        self._gpus = tuple(gpus)
        self._quarantine = quarantine or Quarantine()
        self._processes = dict.fromkeys((gpu.uuid for gpu in self._gpus), 0)
        self._next = 0
        self._lock = Lock()

    def take(self) -> RealGpu:
        """Assign the healthy GPU with the fewest processes; of several, the next in turn.

        Raises:
            GpuUnavailable: every GPU is in quarantine; the text states the reasons.
        """
        with self._lock:
            in_turn = (*self._gpus[self._next :], *self._gpus[: self._next])
            healthy = [gpu for gpu in in_turn if gpu not in self._quarantine]
            if not healthy:
                raise GpuUnavailable(
                    f"no healthy GPU is left: {self._reasons()}; run the canary again in a new session"
                )
            chosen = min(healthy, key=lambda gpu: self._processes[gpu.uuid])
            self._processes[chosen.uuid] += 1
            self._next = (self._gpus.index(chosen) + 1) % len(self._gpus)
            return chosen

    def give_back(self, gpu: RealGpu) -> None:
        """Release the GPU when a process that took it has ended.

        Raises:
            ValueError: no process had taken it.
        """
        with self._lock:
            if self._processes.get(gpu.uuid, 0) < 1:
                raise ValueError(f"{gpu} was given back and never taken")
            self._processes[gpu.uuid] -= 1

    def quarantine(self, gpu: RealGpu, reason: str) -> None:
        """Stop assigning the GPU.  Its processes go on until their owners end them."""
        self._quarantine.add(gpu, reason)

    @property
    def healthy(self) -> tuple[RealGpu, ...]:
        return tuple(gpu for gpu in self._gpus if gpu not in self._quarantine)

    def _reasons(self) -> str:
        ours = {gpu.uuid for gpu in self._gpus}
        return "; ".join(f"{uuid}: {reason}" for uuid, reason in self._quarantine.reasons if uuid in ours)


def _print_to_stderr(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201 - a message for the user
