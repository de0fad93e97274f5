"""What the subcommands share: exit statuses, a parser that says what is wrong in one line, usual options."""

import argparse
from pathlib import Path
from typing import NoReturn, Protocol

from rich.console import Console

from harness.cuda.sanitizers.suppressions import FILE as ACCEPTS
from harness.errors import UsageError
from harness.findings.known_issues import FILE as KNOWN
from harness.model.compute_sanitizer_report import Tool
from harness.model.triton_sanitizer_report import Instrumentation
from harness.model.verdict import Severity
from harness.search.options import TIME_LIMIT_S
from harness.search.session import FOLDER

CLEAN, FINDINGS, BROKEN, NOTHING_JUDGED, INTERRUPTED = 0, 1, 2, 3, 130
STORE = FOLDER / "findings"


class Command(Protocol):
    """What a subcommand does."""

    def __call__(self, given: argparse.Namespace, /) -> int:
        """Do it; the result is the exit status."""
        ...


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, with the nearest option that exists."""

    def error(self, message: str) -> NoReturn:
        """Leave it to `main` to print.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"{message} (see {self.prog} --help)")


def add_libraries(parser: Parser) -> None:
    """`--with`."""
    parser.add_argument(
        "--with",
        dest="libraries",
        action="append",
        default=[],
        metavar="SPEC",
        help="library under test: a PyPI release, a wheel or a folder; repeatable",
    )


def add_engine(parser: Parser) -> None:
    """Where cases run, and for how long."""
    parser.add_argument(
        "--engine",
        default="virtual",
        metavar="NAME",
        help="where cases run: virtual, cuda (the real GPUs of this machine), cuda,virtual (every launch on both), "
        "or module:factory of another",
    )
    add_time_limit(parser)


def add_time_limit(parser: Parser) -> None:
    """`--time-limit`."""
    parser.add_argument(
        "--time-limit",
        type=duration,
        default=TIME_LIMIT_S,
        metavar="SECONDS",
        help="for one case (usually %(default)g)",
    )


def add_sanitizer(parser: Parser) -> None:
    """`--sanitizer` and what of its reports is accepted."""
    parser.add_argument(
        "--sanitizer",
        metavar="TOOL",
        help=f"run cases under compute-sanitizer ({', '.join(Tool)}) or with checks that Triton compiles into kernels "
        f"({', '.join(Instrumentation)}); further options of it may follow, quoted as one",
    )
    parser.add_argument(
        "--accepts",
        type=existing,
        default=Path(ACCEPTS),
        metavar="FILE",
        help="reports of sanitizers that are accepted, with reasons (usually %(default)s)",
    )


def add_known(parser: Parser) -> None:
    """`--known`, of findings."""
    parser.add_argument(
        "--known",
        type=existing,
        default=Path(KNOWN),
        metavar="FILE",
        help="findings that are accepted for now (usually %(default)s)",
    )


def add_fail_on(parser: Parser) -> None:
    """`--fail-on`."""
    parser.add_argument(
        "--fail-on",
        choices=tuple(Severity),
        default=Severity.WARNING,
        help="the least severity that makes the exit status 1",
    )


def existing(text: str) -> Path:
    """A file that is there."""
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text!r}")
    return path


def positive(text: str) -> int:
    """A whole number from 1 on."""
    return _whole(text, least=1)


def natural(text: str) -> int:
    """A whole number from 0 on."""
    return _whole(text, least=0)


def _whole(text: str, *, least: int) -> int:
    try:
        value = int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from error
    if value < least:
        raise argparse.ArgumentTypeError(f"{text} is less than {least}")
    return value


def duration(text: str) -> float:
    """A number above zero, of minutes or seconds."""
    try:
        value = float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes") from error
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no time")
    return value


def console() -> Console:
    """Standard output, in colour on a terminal."""
    return Console(highlight=False)
