"""What `harness` needs to know of a command before it runs: its parser, its functions, and the exit statuses."""

import argparse
import signal
import textwrap
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from enum import IntEnum
from itertools import groupby
from types import FrameType
from typing import Any, NoReturn, Protocol

from harness.errors import UsageError
from harness.wording import counted


class ExitStatus(IntEnum):
    """The exit statuses of every command; a command's help says what they mean there."""

    CLEAN = 0
    FINDINGS = 1
    ERROR = 2
    """The command line or the harness is wrong."""
    NOTHING_CHECKED = 3
    INTERRUPTED = 130
    READER_GONE = 141
    """The reader of the output has gone, as in `harness devices | head`; shells know it as the status of SIGPIPE."""


class HelpText(argparse.HelpFormatter):
    """Wraps texts between words, and keeps lines that are indented: examples and tables."""

    def add_argument(self, action: argparse.Action) -> None:
        """Leave room for the indentation of subcommands, which argparse forgets."""
        super().add_argument(action)
        self._action_max_length += self._indent_increment

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(self._filled(text, width, indent))

    def _filled(self, text: str, width: int, indent: str) -> Iterator[str]:
        for is_prose, lines in groupby(text.splitlines(), key=lambda line: line[:1].strip() != ""):
            if is_prose:
                paragraph = " ".join(lines)
                yield textwrap.fill(paragraph, width, initial_indent=indent, subsequent_indent=indent)
            else:
                yield from (f"{indent}{line}" for line in lines)


class ShowHelp(argparse.Action):
    """`--help`, and `--help-all`, which also lists the options that are rarely needed."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> NoReturn:
        """Print the help, and exit."""
        del namespace, values
        assert isinstance(parser, Parser)
        print(parser.help_text(with_rare=option_string == HELP_ALL), end="")
        parser.exit()


HELP_ALL = "--help-all"


class Parser(argparse.ArgumentParser):
    """A parser that reports a mistake in one line, and whose help fits a screen."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", HelpText)
        super().__init__(**options, allow_abbrev=False, add_help=False)
        self._positionals.title = "arguments"
        self._rare: dict[argparse.Action, str] = {}
        """The help of each option that only `--help-all` lists."""
        self.add_argument("-h", "--help", HELP_ALL, action=ShowHelp, nargs=0, help=argparse.SUPPRESS)

    def add_rare(self, *names: str, group: Any = None, **options: Any) -> None:
        """Add an option that is rarely needed, to a group of this parser if one is given."""
        action = (group or self).add_argument(*names, **options)
        self._rare[action] = action.help or ""
        action.help = argparse.SUPPRESS

    @property
    def option_names(self) -> frozenset[str]:
        """The long forms of all options."""
        return frozenset(name for name in self._option_string_actions if name.startswith("--"))

    def format_help(self) -> str:
        """Return the help without the options that are rarely needed."""
        return self.help_text(with_rare=False)

    def help_text(self, *, with_rare: bool) -> str:
        """Return the help; its usage names no single option, since the list below it does."""
        formatter = self.formatter_class(prog="")
        formatter.add_usage(None, self._get_positional_actions(), (), prefix="")
        self.usage = f"%(prog)s [options] {formatter.format_help().strip()}".rstrip()
        epilog = self.epilog
        self._show_rare(shown=with_rare)
        if self._rare and not with_rare:
            self.epilog = f"{self.prog} {HELP_ALL} lists {counted(len(self._rare), 'more option')}.\n\n{epilog or ''}"
        try:
            return super().format_help()
        finally:
            self.epilog = epilog

    @property
    def actions(self) -> tuple[argparse.Action, ...]:
        """The arguments and options, rare ones too, in the order in which they were added."""
        self._show_rare(shown=True)
        return tuple(self._actions)

    def _show_rare(self, *, shown: bool) -> None:
        for action, text in self._rare.items():
            action.help = text if shown else argparse.SUPPRESS

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing; `main` prints.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"{message} (see {self.prog} --help)")


class CommandModule(Protocol):
    """The functions in the module of a command."""

    def add_options(self, parser: Parser) -> None: ...

    def run(self, options: argparse.Namespace) -> int:
        """Run the command and return its exit status, mostly an `ExitStatus`.

        `options` holds its options, and the `settings` and the `environment` of the process.

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
