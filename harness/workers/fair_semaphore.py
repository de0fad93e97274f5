"""A semaphore that serves threads in the order in which they came.

`threading.Semaphore` lets a thread that has just released take the next slot before a waiting thread has woken up.
"""

import threading
from collections import deque
from types import TracebackType


class FairSemaphore:
    """A context manager that holds one of the slots.  Thread-safe."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: deque[threading.Event] = deque()
        self._lock = threading.Lock()

    @property
    def has_waiting(self) -> bool:
        """True if a thread waits for a slot."""
        return bool(self._waiting)

    def __enter__(self) -> None:
        with self._lock:
            if self._free:  # then no thread waits, since a slot that is released goes to a waiting one
                self._free -= 1
                return
            granted = threading.Event()
            self._waiting.append(granted)
        try:
            granted.wait()
        except BaseException:  # an interrupt
            with self._lock:
                if granted in self._waiting:
                    self._waiting.remove(granted)
                    raise
            # The slot was granted between the interrupt and the lock: pass it on, or it would be lost.
            self._release()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._release()

    def _release(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1
