"""Which GPU each of the pool's processes uses: in turn, the one with the fewest of them, and none that is sick."""

from collections.abc import Sequence
from threading import Lock

from harness.cuda.gpus.inventory import RealGpu
from harness.cuda.gpus.quarantine import Quarantine
from harness.errors import GpuUnavailable


class Assignment:
    """Leased GPUs, shared out among processes; any thread may take, give back and quarantine."""

    def __init__(self, gpus: Sequence[RealGpu], quarantine: Quarantine | None = None) -> None:
        if not gpus:
            raise GpuUnavailable("there is no GPU to share out: lease one first")
        self._gpus = tuple(gpus)
        self._quarantine = quarantine or Quarantine()
        self._taken = dict.fromkeys((gpu.uuid for gpu in self._gpus), 0)
        self._next = 0
        self._lock = Lock()

    def take(self) -> RealGpu:
        """The healthy GPU with the fewest processes; among equals the one whose turn it is.

        Raises:
            GpuUnavailable: every GPU is in quarantine; the text has the reasons.
        """
        with self._lock:
            in_turn = (*self._gpus[self._next :], *self._gpus[: self._next])
            healthy = [gpu for gpu in in_turn if gpu not in self._quarantine]
            if not healthy:
                raise GpuUnavailable(f"no healthy GPU is left: {self._why()}; run the canary again in a new session")
            chosen = min(healthy, key=lambda gpu: self._taken[gpu.uuid])
            self._taken[chosen.uuid] += 1
            self._next = (self._gpus.index(chosen) + 1) % len(self._gpus)
            return chosen

    def give_back(self, gpu: RealGpu) -> None:
        """A process that took the GPU has ended.

        Raises:
            ValueError: nobody had taken it.
        """
        with self._lock:
            if self._taken.get(gpu.uuid, 0) < 1:
                raise ValueError(f"{gpu} was given back and never taken")
            self._taken[gpu.uuid] -= 1

    def quarantine(self, gpu: RealGpu, reason: str) -> None:
        """From now on the GPU is not given out; processes that have it are their owners' to end."""
        self._quarantine.put(gpu, reason)

    @property
    def healthy(self) -> tuple[RealGpu, ...]:
        """The GPUs that `take` may give."""
        return tuple(gpu for gpu in self._gpus if gpu not in self._quarantine)

    def _why(self) -> str:
        ours = {gpu.uuid for gpu in self._gpus}
        return "; ".join(f"{uuid}: {reason}" for uuid, reason in self._quarantine.reasons if uuid in ours)
