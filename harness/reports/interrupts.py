"""Handling of Ctrl-C, SIGTERM and SIGHUP that loses no interrupt inside Hypothesis, and no summary after it.

Python drops a KeyboardInterrupt that is raised inside a callback of the garbage collector ("Exception ignored in").
Hypothesis 6.170 installs such a callback while it draws (`gc_callback` in its `internal/conjecture/junkdrawer.py`).  An
interrupt while it prepares a test becomes an AssertionError of its own (`wrapped_test` in its `core.py`).
So the signal handler sets a flag, and raises only outside Hypothesis' code.  The same holds for campaign statistics,
whose counts must add up.  The search checks the flag with each progress report; that code ends within milliseconds.
"""

import signal
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

HARNESS = "harness"
FOREIGN = frozenset({"hypothesis", "ray"})
"""Packages in whose code nothing is raised: Ray's turns an exception there into one of its own."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""`timeout` and CI systems send SIGTERM, a terminal that is closed sends SIGHUP.  Both end a search as Ctrl-C does."""
COUNTING = frozenset({"harness.search.campaign_statistics", "harness.search.op_statistics"})


class Interrupts:
    """A context manager that handles these signals; for the main thread only.  A signal that is ignored stays so."""

    def __init__(self, signals: Iterable[signal.Signals] = SIGNALS) -> None:
        self._is_requested = False
        self._is_ending = False
        self._before = {number: signal.getsignal(number) for number in signals}

    def __enter__(self) -> Self:
        for number, handler in self._before.items():
            # `nohup` has SIGHUP ignored.  Ctrl-C counts even so: shells ignore it for background jobs.
            if handler is not signal.SIG_IGN or number == signal.SIGINT:
                signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise KeyboardInterrupt if one of the signals has come."""
        if self._is_requested and not self._is_ending:
            raise KeyboardInterrupt

    @contextmanager
    def deferred(self) -> Generator[None]:
        """Let a signal that comes while the context lasts count at the next `check`."""
        self._is_ending = True
        try:
            yield
        finally:
            self._is_ending = False

    def end(self) -> None:
        """Ignore all signals from here on: the caller ends the processes and prints what was found."""
        self._is_ending = True

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number
        is_first, self._is_requested = not self._is_requested, True
        # Only the first raises: a second one must not hit the code that handles the first.
        if is_first and not self._is_ending and not _must_not_break_off(frame):
            raise KeyboardInterrupt


def _must_not_break_off(frame: FrameType | None) -> bool:
    """Return True if the innermost frame of these packages or the harness is foreign, or inside a count."""
    is_innermost = True
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        package = module.partition(".")[0]
        if module in COUNTING or (is_innermost and package in FOREIGN):
            return True
        is_innermost = is_innermost and package not in {HARNESS, *FOREIGN}
        frame = frame.f_back
    return False
