"""Ctrl-C handling that loses no interrupt inside Hypothesis.

Python drops a KeyboardInterrupt that is raised inside a callback of the garbage collector ("Exception ignored in").
Hypothesis 6.170 installs such a callback while it draws (`gc_callback` in its `internal/conjecture/junkdrawer.py`).  An
interrupt while it prepares a test becomes an AssertionError of its own (`wrapped_test` in its `core.py`).
So the signal handler sets a flag, and raises only outside Hypothesis' code.  The search checks the flag with each
progress report; Hypothesis' own code ends within milliseconds.
"""

import signal
from types import FrameType, TracebackType
from typing import Self

HARNESS, HYPOTHESIS = "harness", "hypothesis"


class Interrupts:
    """A context manager that handles SIGINT; for the main thread only."""

    def __init__(self) -> None:
        self._is_requested = False
        self._before = signal.getsignal(signal.SIGINT)

    def __enter__(self) -> Self:
        signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed."""
        if self._is_requested:
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number
        self._is_requested = True
        if not _is_inside_hypothesis(frame):
            raise KeyboardInterrupt


def _is_inside_hypothesis(frame: FrameType | None) -> bool:
    """Return True if the innermost frame of Hypothesis or the harness is one of Hypothesis."""
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in {HARNESS, HYPOTHESIS}:
            return package == HYPOTHESIS
        frame = frame.f_back
    return False
