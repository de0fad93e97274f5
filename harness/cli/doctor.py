"""`harness doctor`."""

import argparse

from harness import __version__
from harness.cli.command import ExitStatus, Parser
from harness.fleet.ray_cluster import nodes_at
from harness.reports.doctor import examine
from harness.wording import counted


def run(options: argparse.Namespace) -> ExitStatus:
    """Print what is installed, and the command for each missing part."""
    is_complete = True
    print(f"kernel-harness {__version__}")
    for part in examine(options.settings):
        if part.found:
            print(f"  {'CHECK' if part.is_doubtful else 'ok':<8} {part.name}: {part.found}")
        else:
            print(f"  {'MISSING' if part.needed else 'none':<8} {part.name}: {part.provide}")
            is_complete &= not part.needed
    for node in nodes_at(options.ray) if options.ray else ():
        gpus = f", {node.gpus} GPU {node.gpu_type}".rstrip() if node.gpus else ""
        print(f"  {'ok':<8} node {node.name}: {counted(node.cpus, 'CPU')}{gpus}")
    return ExitStatus.CLEAN if is_complete else ExitStatus.ERROR


def add_options(parser: Parser) -> None:
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="also list the nodes and GPUs of this Ray cluster; auto: the one of this machine",
    )
    parser.epilog = """\
examples:
  harness doctor
  harness doctor --ray auto   the nodes of the Ray cluster of this machine, too

exit status: 0 every needed part is there; 2 one is missing
"""
