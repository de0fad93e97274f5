"""`harness coverage`: which kernels of a library run here, and which abstain."""

import argparse
from collections.abc import Callable
from itertools import count

from rich.text import Text

from harness.cli.command import CLEAN, NOTHING_JUDGED, Parser, add_engine, console
from harness.cli.kernel_runs import TELL_EVERY_S, add_cases, asked_for, tested
from harness.cli.progress_line import Telling
from harness.model.run import Run
from harness.reports.coverage_table import lines
from harness.search.kernel_coverage import measure
from harness.search.options import Options, engine_of, load_devices
from harness.search.plan import CaseBudget
from harness.search.session import Session

DEVICES = "a100,h200,b200,rtx-pro-6000"
"""One for each target of a data centre's and a workstation's: sm_80, sm_90, sm_100, sm_120."""
CASES = 6


def coverage(given: argparse.Namespace) -> int:
    """Run some cases of each op on each device and print which kernels ran."""
    devices = load_devices(",".join(given.device) or DEVICES, None)
    order, options = asked_for(given, devices, engine_of(given.engine))
    with Session(options) as session:
        measured = measure(order, session.pool, _telling(options))
    screen = console()
    screen.print(
        Text(f"launches executed with {tested(options)}; {given.cases} cases an op and device, seed {given.seed}\n")
    )
    for line in lines(measured, devices):
        screen.print(Text(line), soft_wrap=True)
    return CLEAN if measured.whole else NOTHING_JUDGED


def add_options(parser: Parser) -> None:
    """The options of `harness coverage`."""
    parser.epilog = (
        "Exit status: 0 every launch was executed and every op launched something on every device, 2 usage or harness "
        "error, 3 a launch abstained or an op launched nothing. Whether results are right is for `harness fuzz`."
    )
    add_cases(parser, CASES)
    parser.add_argument(
        "--device", action="append", default=[], metavar="NAME,…", help=f"as for fuzz; repeatable (usually {DEVICES})"
    )
    add_engine(parser)


def _telling(options: Options) -> Callable[[Run], None]:
    """Tells how many cases have run, of how many where that is known."""
    telling, numbers = Telling(TELL_EVERY_S), count(1)
    of = f" of {options.budget.cases}" if isinstance(options.budget, CaseBudget) else ""
    return lambda run: telling(f"{next(numbers)}{of} cases, last {run.case}")
