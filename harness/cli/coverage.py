"""`harness coverage`: which kernels of a library run here, and which abstain."""

import argparse
from collections.abc import Callable
from itertools import count

from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import add_engine
from harness.cli.kernel_survey import PROGRESS_EVERY_S, add_survey, releases_of, survey
from harness.cli.output import ProgressLine, print_lines
from harness.model.run import Run
from harness.reports.coverage_table import lines
from harness.search.engine_choice import parse_engine
from harness.search.kernel_coverage import measure
from harness.search.options import Options, load_devices
from harness.search.plan import CaseBudget
from harness.search.session import Session
from harness.wording import counted

DEVICES = "a100,h200,b200,rtx-pro-6000"
"""One for each compile target of data centres and workstations: sm_80, sm_90, sm_100, sm_120."""
CASES = 6


def run(given: argparse.Namespace) -> ExitStatus:
    """Run some cases of each op on each device and print which kernels ran."""
    devices = load_devices(",".join(given.device) or DEVICES, None)
    request, options = survey(given, devices, parse_engine(given.engine))
    with Session(options) as session:
        measured = measure(request, session.pool, _progress(options))
    conditions = f"{releases_of(options)}; {counted(given.cases, 'case')} an op and device, seed {given.seed}"
    print_lines([f"launches executed with {conditions}\n", *lines(measured, devices)])
    return ExitStatus.CLEAN if measured.whole else ExitStatus.NOTHING_CHECKED


def add_options(parser: Parser) -> None:
    parser.epilog = """\
example:
  harness coverage liger --with liger-kernel==0.8.5 --device blackwell

Results are not checked; `harness fuzz` does that.

exit status: 0 every launch was executed, and every op launched something on every device;
2 usage or harness error; 3 a launch abstained, or an op launched nothing
"""
    add_survey(parser, CASES)
    parser.add_argument(
        "--device", action="append", default=[], metavar="NAME,…", help=f"as for fuzz; repeatable (default: {DEVICES})"
    )
    add_engine(parser)


def _progress(options: Options) -> Callable[[Run], None]:
    """Return what prints the number of finished cases now and then."""
    progress, numbers = ProgressLine(PROGRESS_EVERY_S), count(1)
    of = f" of {options.budget.cases}" if isinstance(options.budget, CaseBudget) else ""
    return lambda run: progress(f"{next(numbers)}{of} cases, last {run.case}")
