"""`harness upgrade`: what another Triton makes of the kernels of suites."""

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from harness import libraries
from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import (
    add_device,
    add_fixed_seed,
    add_libraries,
    add_suites,
    add_time_limit,
    json_path,
    names_in,
    plan_of,
    positive,
)
from harness.cli.hypothesis_folder import use_hypothesis_folder
from harness.cli.output import print_lines, print_progress
from harness.documents.files import dumps, write_text
from harness.documents.upgrade_report import UpgradeReport, UpgradeVerdict
from harness.errors import UsageError, store_error
from harness.findings.triton_process import PACKAGE
from harness.model.engine_traits import VIRTUAL
from harness.project_settings import JoinedByCommas
from harness.reports.html.upgrade_page import upgrade_page
from harness.reports.upgrade_markdown import upgrade_markdown
from harness.reports.upgrade_text import lines
from harness.search.engine_choice import parse_engine
from harness.search.missing_libraries import refuse_missing_distributions
from harness.search.options import options_of
from harness.suite_files import project_of
from harness.upgrade.engines import RECORDING, recording_choice
from harness.upgrade.tritons import installed_triton
from harness.upgrade.upgrading import NEW, OLD, Side, UpgradeRequest, upgrade

CASES = 6
TIME_LIMIT_S = 600.0
FAILING = (UpgradeVerdict.DIFFERENT, UpgradeVerdict.FAILS, UpgradeVerdict.REMOVED)
"""The verdicts that make the exit status 1, unless `--fail-on` names others."""
WRITERS: Mapping[str, Callable[[UpgradeReport], str]] = {
    "json": dumps,
    "html": upgrade_page,
    "markdown": upgrade_markdown,
}
"""By option, what makes the text of its file."""


def run(arguments: argparse.Namespace) -> ExitStatus:
    """Compare the two releases, print the table and write the files that were asked for."""
    files = {option: json_path(getattr(arguments, option), option) for option in WRITERS}
    fail_on = _verdicts(arguments.fail_on)
    if arguments.package != PACKAGE:
        raise UsageError(f"{arguments.package!r} cannot be upgraded: only {PACKAGE}; another library by --with")
    recording_choice(parse_engine(arguments.engine))
    plan = plan_of(arguments, seed=arguments.seed)
    options = options_of(plan, arguments.settings, project_of(Path.cwd()))
    refuse_missing_distributions(options)
    cache = arguments.settings.cache
    use_hypothesis_folder()
    try:
        sides = {
            name: Side(name=name, text=text, triton=installed_triton(text, cache))
            for name, text in ((OLD, arguments.old), (NEW, arguments.new))
        }
        libraries.resolve(options.libraries, cache=cache)
        request = UpgradeRequest(
            old=sides[OLD],
            new=sides[NEW],
            plan=plan,
            options=options,
            cases_per_op=arguments.cases,
            processes=arguments.processes or len(os.sched_getaffinity(0)),
        )
        report = upgrade(request, print_progress)
        for option, path in files.items():
            if path is not None:
                write_text(WRITERS[option](report), path)
    except OSError as error:
        raise store_error(error, cache) from None
    print_lines(lines(report, fail_on))
    return status_of(report, fail_on)


def status_of(report: UpgradeReport, fail_on: tuple[UpgradeVerdict, ...]) -> ExitStatus:
    """Return the exit status.

    Cases that complete no more, and suites that load no more, stand against the upgrade as failing verdicts do.
    """
    if any(kernel.verdict in fail_on for kernel in report.kernels) or report.worse_endings or report.worse_suites:
        return ExitStatus.FINDINGS
    compared = (kernel for kernel in report.kernels if kernel.verdict is not UpgradeVerdict.NOT_COMPARED)
    return ExitStatus.CLEAN if any(compared) else ExitStatus.NOTHING_CHECKED


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  harness upgrade triton 3.6.0 3.9.0 fla:norm --with fla-core==0.6.0
  harness upgrade triton 3.6.0 ../triton my_suite.py --markdown upgrade.md

No GPU is needed.  Both Tritons are installed into the harness's cache, where builds and
compared cases are kept, too: an interrupted upgrade goes on where it was.

exit status: 0 nothing stands against the upgrade; 1 a kernel has a verdict of --fail-on, a case
completes no more, or a suite loads no more; 2 usage or harness error; 3 nothing could be compared
"""
    parser.add_argument("package", metavar="PACKAGE", help="what is upgraded: triton")
    for name, which in (("old", "in use"), ("new", "to move to")):
        parser.add_argument(
            name,
            metavar=name.upper(),
            help=f"the Triton {which}: a release (3.9.0), a wheel or the folder of a checkout",
        )
    add_suites(parser)
    add_device(parser)
    parser.add_argument(
        "--cases",
        type=positive,
        default=CASES,
        metavar="N",
        help="cases of each op on each device, of users' sizes first (default: %(default)s)",
    )
    add_fixed_seed(parser)
    parser.add_argument(
        "--fail-on",
        action=JoinedByCommas,
        default="",
        metavar="VERDICT,…",
        help=f"verdicts that make the exit status 1: {', '.join(UpgradeVerdict)} (default: {','.join(FAILING)})",
    )
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON")
    parser.add_argument("--html", metavar="FILE", help="write the report as a page")
    parser.add_argument("--markdown", metavar="FILE", help="write a summary for a pull request")
    parser.add_rare(
        "--engine",
        default=VIRTUAL.name,
        metavar="NAME",
        help=f"where cases run: {', '.join(RECORDING)} (default: %(default)s)",
    )
    parser.add_rare("--processes", type=positive, metavar="N", help="processes at once (default: one per core)")
    add_time_limit(parser, TIME_LIMIT_S)
    add_libraries(parser)


def _verdicts(text: str) -> tuple[UpgradeVerdict, ...]:
    """Parse the value of `--fail-on`.

    Raises:
        UsageError: a name is no verdict.
    """
    return tuple(map(UpgradeVerdict, names_in("verdict", text, UpgradeVerdict))) or FAILING
