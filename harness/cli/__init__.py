"""The command line.  Each command is a module of its name, imported when it is used."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module

from harness import __version__
from harness.cli.command import CommandModule, ExitStatus, Parser, ended_by_signals
from harness.errors import HarnessError, UsageError, unknown
from harness.extras import missing_dependency, require
from harness.garbage import without_collections
from harness.settings import Settings
from harness.wording import fitted

DESCRIPTION = "Find bugs in Triton GPU kernels, with or without the GPU."
EPILOG = """\
harness COMMAND --help has the options of a command, and examples.

examples:
  harness fuzz fla:norm --with fla-core==0.6.0 --device b200 --minutes 5
  harness fuzz my_suite.py
  harness replay 88892a72

exit status: 0 clean, 1 findings, 2 usage or harness error, 3 nothing could be
checked, 130 interrupted without findings
"""
COMMANDS = {
    "init": "draft suites, settings and a workflow for a repository",
    "run": "run a command on an emulated GPU, and check each launch",
    "fuzz": "search for failures of the ops that suite files declare",
    "night": "search where the last night ended, and remember",
    "morning": "show what the nights know: what is new, there and gone",
    "gate": "search what a change touches, and fail for what it breaks",
    "check": "check a kernel against its reference, without a suite",
    "replay": "run the cases of findings again, each in a fresh process",
    "report": "write findings as a page or for other tools, or merge reports",
    "findings": "list the stored findings",
    "keep": "copy a finding to the regressions that searches replay first",
    "bisect": "find the release or commit that introduced or fixed a bug",
    "region": "map the sizes, SM counts and configs at which a bug shows",
    "repro": "write a finding as one Python file that shows it",
    "matrix": "compile every kernel and autotune config for every GPU",
    "upgrade": "compare kernels as two releases of Triton compile and run them",
    "devices": "list the GPUs that can be emulated",
    "doctor": "print what is installed, and the command for what is not",
}
"""By name, what each command does.  Its code is in the module of that name."""
RUN_CASES = frozenset({"fuzz", "replay", "region", "check"})
"""Commands that run cases, nearly always by a zygote of the engine that their options name."""
EXTRAS = {"repro": "repro"}
"""By command, the extra without which its module cannot be imported."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    if not words:
        print(_parser(words).format_help(), end="")
        return ExitStatus.ERROR
    if arguments is not None or words[0] not in RUN_CASES:
        return _ended(partial(parse, words))
    from harness.cli.early_start import zygote_started  # noqa: PLC0415 - no other command needs it

    with zygote_started(words[1:], os.environ):
        return _ended(partial(parse, words))


def run_module(module: CommandModule, program: str, summary: str, arguments: Sequence[str]) -> int:
    """Run a command that is no part of `harness`, such as `python -m studies.corpus`, and return its exit status."""

    def parsed() -> argparse.Namespace:
        parser = Parser(prog=program, description=summary)
        module.add_options(parser)
        parser.set_defaults(module=module, parser=parser)
        return _checked(*parser.parse_known_args(arguments))

    return _ended(parsed)


def _ended(parsed: Callable[[], argparse.Namespace]) -> int:
    """Run the command of a command line, and return its exit status."""
    try:
        with without_collections():
            options = parsed()
        options.settings, options.environment = Settings.from_environment(os.environ), dict(os.environ)
        if vars(options).get("no_resident"):
            options.settings = replace(options.settings, resident_minutes=0.0)
        module: CommandModule = options.module
        with ended_by_signals():
            status = module.run(options)
        sys.stdout.flush()  # a reader that has gone is noticed here, not at Python's exit
    except BrokenPipeError:
        # Without this, Python reports a second error at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitStatus.READER_GONE
    except HarnessError as error:
        print(fitted(f"harness: {error}", sys.stderr), file=sys.stderr)
        return ExitStatus.ERROR
    except KeyboardInterrupt:
        print("harness: interrupted", file=sys.stderr)
        return ExitStatus.INTERRUPTED
    return status


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line, without running the command.

    Raises:
        UsageError: an argument is missing or wrong.
        MissingPart: the command needs an extra that is not installed.
    """
    own, words = _split(arguments)
    options = _checked(*_parser(own).parse_known_args(own))
    if words:
        options.words = words
    return options


def _checked(options: argparse.Namespace, rest: Sequence[str]) -> argparse.Namespace:
    """Return the parsed options.

    Raises:
        UsageError: `rest` holds an argument that the command does not know.
    """
    if rest:
        chosen: Parser = options.parser
        name = rest[0].partition("=")[0]
        if not name.startswith("-"):
            raise UsageError(f"unexpected argument {name!r} (see {chosen.prog} --help)")
        raise unknown("option", name, chosen.option_names)
    return options


def _split(arguments: Sequence[str]) -> tuple[Sequence[str], tuple[str, ...]]:
    """Return the arguments of `harness`, and those after `--` if they are another command's."""
    if arguments[:1] != ["run"] or "--" not in arguments:
        return arguments, ()
    at = arguments.index("--")
    return arguments[:at], tuple(arguments[at + 1 :])


def _parser(arguments: Sequence[str]) -> Parser:
    """Return a parser that knows the options of the command in `arguments`, and of the others only the names.

    So a command imports no more than it needs, and `harness --version` next to nothing.
    """
    top = Parser(prog="harness", description=DESCRIPTION, epilog=EPILOG)
    version = f"kernel-harness {__version__}"
    top.add_argument("--version", action="version", version=version, help="print the version")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
    if chosen is not None and chosen not in COMMANDS:
        raise unknown("command", chosen, COMMANDS)
    for name, summary in COMMANDS.items():
        parser = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name == chosen:
            module = _load(name)
            module.add_options(parser)
            parser.set_defaults(module=module, parser=parser)
    return top


def module_of(command: str) -> str:
    """Return the name of a command's module."""
    return f"harness.cli.{command}"


def _load(name: str) -> CommandModule:
    if extra := EXTRAS.get(name):
        require(extra, f"harness {name}")
    try:
        module: CommandModule = import_module(module_of(name))  # pyright: ignore[reportAssignmentType] - a module as a protocol
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("harness"):
            raise
        raise missing_dependency(f"harness {name}", error) from error
    return module
