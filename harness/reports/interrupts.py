"""Ctrl-C that is never lost.

Python drops a KeyboardInterrupt that happens to be raised inside a callback of the garbage collector, with
"Exception ignored in", and Hypothesis installs such a callback while it draws (`gc_callback` in its
`internal/conjecture/junkdrawer.py`, 6.170).  One that comes while it prepares a test becomes an AssertionError of its
own (`wrapped_test` in its `core.py`).  So the wish is written down, and looked at whenever the search tells how it
goes; inside Hypothesis' own code, which is left in milliseconds, nothing is raised.
"""

import signal
from types import FrameType, TracebackType
from typing import Self

OURS, THEIRS = "harness", "hypothesis"


class Interrupts:
    """A context manager, for the main thread alone."""

    def __init__(self) -> None:
        self._asked = False
        self._before = signal.getsignal(signal.SIGINT)

    def __enter__(self) -> Self:
        signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def check(self) -> None:
        """Raise the KeyboardInterrupt that was asked for, if it was."""
        if self._asked:
            raise KeyboardInterrupt

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del number
        self._asked = True
        if not _is_theirs(frame):
            raise KeyboardInterrupt


def _is_theirs(frame: FrameType | None) -> bool:
    """Whether this code runs on behalf of Hypothesis, and of nothing of ours that Hypothesis calls."""
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in {OURS, THEIRS}:
            return package == THEIRS
        frame = frame.f_back
    return False
