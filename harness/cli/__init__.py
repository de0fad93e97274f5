"""The command line: `harness --help` lists the commands.

Exit status: 0 clean, 1 findings, 2 usage or harness error, 3 nothing could be judged, 130 interrupted without findings.
"""

import argparse
import os
import re
import sys
from collections.abc import Sequence

from harness import __version__
from harness.cli import bisect, conform, corpus, coverage, devices, fuzz, keep, mutate, region, replay, report, repro
from harness.cli.command import BROKEN, INTERRUPTED, Command, Parser
from harness.errors import HarnessError, UsageError, unknown


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit status."""
    try:
        given = _parse(arguments)
        command: Command = given.command
        return command(given)
    except HarnessError as error:
        print(f"harness: {error}", file=sys.stderr)
        return BROKEN
    except KeyboardInterrupt:
        print("harness: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `harness fuzz … | head`: nobody reads on, and Python would say so at its exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    given, rest = _parser().parse_known_args(arguments)
    if rest:
        chosen: Parser = given.parser
        name = rest[0].partition("=")[0]
        if not name.startswith("-"):
            raise UsageError(f"unexpected argument {name!r} (see {chosen.prog} --help)")
        raise unknown("option", name, set(re.findall(r"--[a-z][a-z-]*", chosen.format_help())))
    return given


def _parser() -> Parser:
    top = Parser(
        prog="harness", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    top.add_argument("--version", action="version", version=f"kernel-harness {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)

    def add(name: str, command: Command, text: str) -> Parser:
        parser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        parser.set_defaults(command=command, parser=parser)
        return parser

    fuzz.add_options(add("fuzz", fuzz.fuzz, "search for failures of the ops that suite files declare"))
    replay.add_options(add("replay", replay.replay, "run the case of a finding again, in a fresh process"))
    report.add_report_options(
        add("report", report.report, "write what was found as a page, and as a CI system wants it")
    )
    report.add_findings_options(add("findings", report.findings, "list the findings that are kept"))
    keep.add_options(add("keep", keep.keep, "keep a finding as a regression that pytest replays first"))
    bisect.add_options(add("bisect", bisect.bisection, "find the release or commit with which a finding came, or went"))
    region.add_options(add("region", region.region, "map for which sizes and settings around it a finding shows"))
    repro.add_options(add("repro", repro.repro, "write a finding as one Python file that shows it"))
    coverage.add_options(add("coverage", coverage.coverage, "print which kernels of a library run here, on which GPUs"))
    conform.add_options(
        add("conform", conform.conform, "repeat every launch of the virtual GPU on a real one, and compare")
    )
    corpus.add_options(add("corpus", corpus.corpus, "find historical bugs again, and none in the mended releases"))
    mutate.add_options(add("mutate", mutate.mutate, "count how many mutants of correct kernels the oracles notice"))
    add("devices", devices.devices, "list the GPUs that a case can pretend to run on")
    add("doctor", devices.doctor, "say what is installed, and how to get what is missing")
    return top
