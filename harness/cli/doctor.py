"""`harness doctor`."""

import argparse

from harness import __version__
from harness.cli.command import ExitStatus, Parser
from harness.reports.doctor import examine


def run(given: argparse.Namespace) -> ExitStatus:
    """Print what is installed, and the command for each missing part."""
    is_complete = True
    print(f"kernel-harness {__version__}")
    for part in examine(given.settings):
        if part.found:
            print(f"  {'CHECK' if part.is_doubtful else 'ok':<8} {part.name}: {part.found}")
        else:
            print(f"  {'MISSING' if part.needed else 'none':<8} {part.name}: {part.provide}")
            is_complete &= not part.needed
    return ExitStatus.CLEAN if is_complete else ExitStatus.ERROR


def add_options(parser: Parser) -> None:
    parser.epilog = "exit status: 0 every needed part is there; 2 one is missing"
