"""Turns: so many at once, and the others in the order in which they came.

`threading.Semaphore` lets whoever has just had a turn take the next before one that waits has woken up.
"""

import threading
from collections import deque
from types import TracebackType


class FairSemaphore:
    """A context manager for each turn.  Thread-safe."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._waiting: deque[threading.Event] = deque()
        self._lock = threading.Lock()

    @property
    def is_wanted(self) -> bool:
        """Whether anybody waits for a turn."""
        return bool(self._waiting)

    def __enter__(self) -> None:
        with self._lock:
            if self._free:  # so nobody waits
                self._free -= 1
                return
            turn = threading.Event()
            self._waiting.append(turn)
        try:
            turn.wait()
        except BaseException:  # an interrupt
            with self._lock:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                    raise
            self._pass_on()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1
