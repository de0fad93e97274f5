"""What commands print: lines on standard output, and progress on the error stream."""

import sys
import time
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.text import Text

from harness.errors import UsageError
from harness.reports.interrupts import Interrupts
from harness.wording import fitted, visible


def console() -> Console:
    """Return standard output, in colour on a terminal."""
    return Console(highlight=False)


def show(screen: Console, text: Text) -> None:
    """Print a text.  A terminal breaks its lines between words; a file or pipe keeps long lines, for other programs.

    It may come from a kernel, or from a file of somebody else: escapes are printed as text.
    """
    shown = text.copy()
    shown.plain = visible(text.plain)
    screen.print(shown, soft_wrap=not screen.is_terminal)


def print_lines(lines: Iterable[str]) -> None:
    """Print plain lines, which may be longer than the terminal is wide."""
    screen = console()
    for line in lines:
        show(screen, Text(line))


def print_progress(line: str) -> None:
    print(fitted(line, sys.stderr), file=sys.stderr, flush=True)


def write_text(path: Path, text: str) -> None:
    """Write a file that the user names, and say so.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    print_progress(str(path))


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
