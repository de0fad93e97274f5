"""`harness morning`."""

import argparse

from harness.cli.command import ExitStatus, Parser


def run(options: argparse.Namespace) -> ExitStatus:
    raise NotImplementedError


def add_options(parser: Parser) -> None:
    """None yet."""
