"""Keeps the sick GPUs of a session, which get no more cases because their failures blame no kernel."""

import sys
from collections.abc import Callable
from threading import Lock

from harness.engines.cuda.gpus.inventory import RealGpu


class Quarantine:
    """The reasons by GPU.  A GPU never leaves.  Thread-safe."""

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
            f"{gpu} is in quarantine for this session: {reason}. Its cases go to other GPUs; no kernel is blamed"
        )

    def __contains__(self, gpu: RealGpu) -> bool:
        with self._lock:
            return gpu.uuid in self._reasons

    @property
    def reasons(self) -> tuple[tuple[str, str], ...]:
        """UUID and reason of each, in order of arrival."""
        with self._lock:
            return tuple(self._reasons.items())


def _print_to_stderr(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201 - a message for the user
