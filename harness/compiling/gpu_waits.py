"""The waits of GPUs for compilers: how the first one is kept short, and how long all are."""

import threading
from collections.abc import Callable
from time import monotonic

HEAD_START = 2
"""Cases that have the compilers for themselves at first: until one is compiled, the GPUs have nothing to do."""
HEAD_START_S = 2.0


class HeadStart:
    """Holds back all cases but the first, until it is ended.  Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._admitted = 0
        self._held: list[Callable[[], None]] = []
        self._is_over = threading.Event()

    def admit(self, begin: Callable[[], None]) -> None:
        """Begin with a case, now or at the end."""
        with self._lock:
            if self._admitted >= HEAD_START and not self._is_over.is_set():
                self._held.append(begin)
                return
            self._admitted += 1
        begin()

    def end(self) -> None:
        """Begin with what was held back."""
        with self._lock:
            self._is_over.set()
            held, self._held = self._held, []
        for begin in held:
            begin()

    def wait(self, limit_s: float) -> None:
        """Wait for the end, up to a limit."""
        self._is_over.wait(limit_s)


class IdleTime:
    """The time in which GPUs were idle while kernels were being compiled for them.

    Nothing counts before `begin`: until its own process has loaded, a GPU does not wait for a compiler.
    """

    def __init__(self, count: int) -> None:
        """`count` is how many cases the GPUs run at once."""
        self._count = count
        self._lock = threading.Lock()
        self._compiling = self._running = 0
        """Cases that are with the compilers, and with the GPUs or queued there."""
        self._last_s: float | None = None
        """The moment up to which time is accounted for; None before `begin`."""
        self._total_s = self._waited_s = 0.0
        """Summed over all GPUs."""

    def begin(self) -> None:
        """Count from now on; later calls change nothing."""
        with self._lock:
            if self._last_s is None:
                self._last_s = monotonic()

    def change_compiling(self, by: int) -> None:
        """Note that so many more cases are with the compilers."""
        with self._lock:
            self._account()
            self._compiling += by

    def change_running(self, by: int) -> None:
        """Note that so many more cases are with the GPUs."""
        with self._lock:
            self._account()
            self._running += by

    def add_compilation_on_gpu(self, seconds: float) -> None:
        """Add the time in which a GPU's own process compiled: the GPU waited for that, too."""
        with self._lock:
            self._waited_s += seconds

    def share(self) -> float:
        """Return the share of the GPUs' time so far in which they waited, 0 to 1."""
        with self._lock:
            return self._waited_s / self._total_s if self._total_s else 0.0

    def _account(self) -> None:
        """Account for the time since the last change, unless there was no case at all; after `begin`."""
        if self._last_s is None:
            return
        now = monotonic()
        if self._compiling or self._running:
            passed = now - self._last_s
            self._total_s += self._count * passed
            if self._compiling:
                self._waited_s += max(0, self._count - self._running) * passed
        self._last_s = now
