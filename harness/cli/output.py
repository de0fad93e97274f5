"""What commands print: lines on standard output, and progress on the error stream."""

import sys
import time
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from harness.reports.interrupts import Interrupts


def console() -> Console:
    """Return standard output, in colour on a terminal."""
    return Console(highlight=False)


def print_lines(lines: Iterable[str]) -> None:
    """Print plain lines, which may be longer than the terminal is wide."""
    screen = console()
    for line in lines:
        screen.print(Text(line), soft_wrap=True)


def print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class ProgressLine:
    """A callable that prints at most one progress line in `every_s` seconds.

    It also raises an interrupt that the user has asked for.  Callers hence call it often, with every line they have.
    """

    def __init__(self, every_s: float, interrupts: Interrupts | None = None) -> None:
        self._every_s = every_s
        self._interrupts = interrupts
        self._last_printed = time.monotonic()

    def __call__(self, line: str) -> None:
        if self._interrupts is not None:
            self._interrupts.check()
        if time.monotonic() - self._last_printed >= self._every_s:
            self._last_printed = time.monotonic()
            print_progress(line)
