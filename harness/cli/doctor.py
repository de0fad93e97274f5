"""`harness doctor`."""

import argparse
import time
from collections.abc import Iterator
from contextlib import suppress

import psutil

from harness import __version__
from harness.cli.command import ExitStatus, Parser
from harness.fleet.ray_cluster import nodes_at
from harness.reports.doctor import examine
from harness.settings import RESIDENT_VARIABLE, Settings
from harness.wording import counted
from harness.workers.fork_servers.residents import found_residents, residents_folder


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
    for line in _residents(options.settings):
        print(f"  {'ok':<8} {line}")
    for node in nodes_at(options.ray) if options.ray else ():
        gpus = f", {node.gpus} GPU {node.gpu_type}".rstrip() if node.gpus else ""
        print(f"  {'ok':<8} node {node.name}: {counted(node.cpus, 'CPU')}{gpus}")
    return ExitStatus.CLEAN if is_complete else ExitStatus.ERROR


def _residents(settings: Settings) -> Iterator[str]:
    """Yield a line for each resident zygote of the user."""
    folder = residents_folder(settings.runtime)
    for resident in found_residents(folder) if folder else ():
        if not resident.is_ready:
            yield "resident zygote: still loads, or is stopped"
            continue
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(resident.pid)
            minutes = (time.time() - process.create_time()) / 60
            megabytes = process.memory_info().rss / 1e6
            yield (
                f"resident zygote: process {resident.pid}, {minutes:.0f} minutes old, {megabytes:.0f} MB "
                f"(kill {resident.pid} ends it; export {RESIDENT_VARIABLE}=0: none)"
            )


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
