"""How far a long command is, in a line on the error stream now and then."""

import sys
import time

from harness.reports.interrupts import Interrupts


class Telling:
    """Called with every line that could be told; tells one in so many seconds, and raises an interrupt at any."""

    def __init__(self, every_s: float, interrupts: Interrupts | None = None) -> None:
        self._every_s = every_s
        self._interrupts = interrupts
        self._told = time.monotonic()

    def __call__(self, line: str) -> None:
        """Tell it, if it is time."""
        if self._interrupts is not None:
            self._interrupts.check()
        if time.monotonic() - self._told >= self._every_s:
            self._told = time.monotonic()
            print(line, file=sys.stderr)
