"""The command line.  Each command is a module of its name, imported when it is used."""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module

from harness import __version__
from harness.cli.command import CommandModule, ExitStatus, Parser, ended_by_signals
from harness.errors import HarnessError, UsageError, unknown
from harness.extras import require
from harness.settings import Settings

DESCRIPTION = """\
Find bugs in Triton GPU kernels, with or without the GPU.

exit status: 0 clean, 1 findings, 2 usage or harness error, 3 nothing could be checked,
130 interrupted without findings
"""
COMMANDS = {
    "fuzz": "search for failures of the ops that suite files declare",
    "replay": "run the cases of findings again, each in a fresh process",
    "report": "write all findings as a page, and as Markdown or JUnit XML for a CI system",
    "findings": "list the stored findings",
    "keep": "copy a finding to the regressions that pytest replays first",
    "bisect": "find the release or commit that introduced or fixed a finding",
    "region": "map the sizes, SM counts and configs at which a finding shows",
    "repro": "write a finding as one Python file that shows it",
    "coverage": "print which kernels of a library run here, on which GPUs",
    "conform": "repeat each launch of the virtual GPU on a hardware GPU, and compare",
    "corpus": "find historical bugs again in bad releases, and none in fixed releases",
    "mutate": "measure how many mutants of correct kernels the oracles notice",
    "devices": "list the GPUs that can be emulated",
    "doctor": "print what is installed, and the command for each missing part",
}
"""By name, what each command does.  Its code is in the module of that name."""
EXTRAS = {"repro": "repro", "mutate": "mutate"}
"""By command, the extra without which its module cannot be imported."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    try:
        given = parse(sys.argv[1:] if arguments is None else arguments)
        given.settings = Settings.from_environment(os.environ)
        module: CommandModule = given.module
        with ended_by_signals():
            return module.run(given)
    except HarnessError as error:
        print(f"harness: {error}", file=sys.stderr)
        return ExitStatus.ERROR
    except KeyboardInterrupt:
        print("harness: interrupted", file=sys.stderr)
        return ExitStatus.INTERRUPTED
    except BrokenPipeError:
        # The reader of `harness fuzz … | head` has gone.  Without this, Python reports a second error at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitStatus.ERROR


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line, without running the command.

    Raises:
        UsageError: an argument is missing or wrong.
        MissingPart: the command needs an extra that is not installed.
    """
    given, rest = _parser(arguments).parse_known_args(arguments)
    if rest:
        chosen: Parser = given.parser
        name = rest[0].partition("=")[0]
        if not name.startswith("-"):
            raise UsageError(f"unexpected argument {name!r} (see {chosen.prog} --help)")
        raise unknown("option", name, set(re.findall(r"--[a-z][a-z-]*", chosen.format_usage())))
    return given


def _parser(arguments: Sequence[str]) -> Parser:
    """Return a parser that knows the options of the command in `arguments`, and of the others only the names.

    So a command imports no more than it needs, and `harness --version` next to nothing.
    """
    top = Parser(prog="harness", description=DESCRIPTION)
    top.add_argument("--version", action="version", version=f"kernel-harness {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
    for name, summary in COMMANDS.items():
        parser = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name == chosen:
            module = _load(name)
            module.add_options(parser)
            parser.set_defaults(module=module, parser=parser)
    return top


def _load(name: str) -> CommandModule:
    if extra := EXTRAS.get(name):
        require(extra, f"harness {name}")
    module: CommandModule = import_module(f"harness.cli.{name}")  # pyright: ignore[reportAssignmentType] - a module as a protocol
    return module
