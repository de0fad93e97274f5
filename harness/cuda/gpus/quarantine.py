"""Which GPUs are sick in this session: what they fail says nothing about a kernel, so they get no more cases."""

import sys
from collections.abc import Callable
from threading import Lock

from harness.cuda.gpus.inventory import RealGpu


class Quarantine:
    """Reasons by GPU, for the life of this object; any thread may ask and add.  Nobody leaves it."""

    def __init__(self, tell: Callable[[str], object] | None = None) -> None:
        self._tell = tell or _say
        self._reasons: dict[str, str] = {}
        self._lock = Lock()

    def put(self, gpu: RealGpu, reason: str) -> None:
        """Keep the first reason and say it, once, in one line."""
        with self._lock:
            if gpu.uuid in self._reasons:
                return
            self._reasons[gpu.uuid] = reason
        self._tell(
            f"{gpu} is in quarantine for this session: {reason}. Its cases go to other GPUs; no kernel is blamed"
        )

    def __contains__(self, gpu: RealGpu) -> bool:
        with self._lock:
            return gpu.uuid in self._reasons

    @property
    def reasons(self) -> tuple[tuple[str, str], ...]:
        """UUID and reason of each, in the order in which they came."""
        with self._lock:
            return tuple(self._reasons.items())


def _say(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201 - the user is to know which GPU no longer takes part
