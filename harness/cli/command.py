"""What `harness` needs to know of a command before it runs: its parser, its functions, and the exit statuses."""

import argparse
import signal
from collections.abc import Generator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType
from typing import Any, NoReturn, Protocol

from harness.errors import UsageError


class ExitStatus(IntEnum):
    """The exit statuses of every command; a command's help says what they mean there."""

    CLEAN = 0
    FINDINGS = 1
    ERROR = 2
    """The command line or the harness is wrong."""
    NOTHING_CHECKED = 3
    INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """A parser that reports a mistake in one line, and keeps the line breaks of its texts."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing; `main` prints.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"{message} (see {self.prog} --help)")


class CommandModule(Protocol):
    """The functions in the module of a command."""

    def add_options(self, parser: Parser) -> None: ...

    def run(self, given: argparse.Namespace) -> ExitStatus:
        """Run the command.  `given` holds its options, and the `settings` of the process.

        Raises:
            HarnessError: its text is printed, and the exit status is 2.
        """
        ...


@contextmanager
def ended_by_signals() -> Generator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does, so that a command removes what it made.

    `timeout` and CI systems send SIGTERM, a terminal that is closed sends SIGHUP.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # `nohup` has SIGHUP ignored
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
