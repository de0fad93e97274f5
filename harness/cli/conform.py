"""`harness conform`: whether the virtual GPU and a real one leave the same behind, launch by launch."""

import argparse
import time
from concurrent.futures import Future

from rich.text import Text

from harness.cli.command import CLEAN, FINDINGS, NOTHING_JUDGED, Parser, add_time_limit, console, duration
from harness.cli.kernel_runs import TELL_EVERY_S, add_cases, asked_for, tested
from harness.cli.progress_line import Telling
from harness.model.paired_run import beside, ended_there_alone
from harness.model.run import Run
from harness.reports.conformance import Compared, lines
from harness.search.kernel_coverage import measure
from harness.search.leasing import own_devices
from harness.search.options import BOTH, load_devices
from harness.search.session import Session

CASES = 20
TURN = 10
"""So many cases of an op before the next one's: who stops it early has seen something of each kernel."""


class _Enough(Exception):
    """The time is up."""


def conform(given: argparse.Namespace) -> int:
    """Run some cases of each op on both GPUs and print where they part."""
    devices = own_devices(None) if given.device is None else load_devices(given.device, None)
    order, options = asked_for(given, devices, BOTH, turn=TURN)
    compared, telling, began = Compared(), Telling(TELL_EVERY_S), time.monotonic()
    beside_again = list[tuple[Run, Future[Run]]]()
    screen = console()
    with Session(options) as session:

        def ran(run: Run) -> None:
            if ended_there_alone(run):
                beside_again.append((run, session.pool.submit(beside(run, run.case))))
            else:
                compared.add(run)
            tried = compared.cases + len(beside_again)
            telling(f"{tried} of {given.cases * len(order.pairs)} cases, last {run.case}")
            if given.seconds is not None and time.monotonic() - began > given.seconds:
                raise _Enough

        try:
            measure(order, session.pool, ran)
        except _Enough:
            screen.print(Text(f"the {given.seconds:g} s are over: not all cases were run\n"))
        for run, again in beside_again:
            compared.add(run, again.result())
    screen.print(
        Text(f"both GPUs with {tested(options)}; at most {given.cases} cases an op and device, seed {given.seed}\n")
    )
    for line in lines(compared):
        screen.print(Text(line), soft_wrap=True)
    if compared.agrees:
        return CLEAN
    return FINDINGS if compared.has_findings else NOTHING_JUDGED


def add_options(parser: Parser) -> None:
    """The options of `harness conform`."""
    parser.epilog = (
        "Needs a GPU. Exit status: 0 both agree, 1 they differ by more than rounding explains or a case broke off, "
        "2 usage or harness error, 3 nothing was compared. `harness fuzz --engine cuda,virtual` makes findings of it."
    )
    add_cases(parser, CASES)
    parser.add_argument(
        "--device", metavar="NAME,…", help="what the virtual GPU pretends to be (usually what the real one is)"
    )
    parser.add_argument("--seconds", type=duration, metavar="S", help="stop after so long, with what there is")
    add_time_limit(parser)
