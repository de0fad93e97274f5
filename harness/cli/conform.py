"""`harness conform`: compare what each launch leaves behind on the virtual GPU and on a hardware GPU."""

import argparse
import time
from concurrent.futures import Future

from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import add_time_limit, duration
from harness.cli.kernel_survey import PROGRESS_EVERY_S, add_survey, releases_of, survey
from harness.cli.output import ProgressLine, print_lines
from harness.model.paired_run import faulted_on_hardware_only, request_paired_run
from harness.model.run import Run
from harness.reports.conformance import Compared, lines
from harness.search.engine_choice import EngineName
from harness.search.kernel_coverage import measure
from harness.search.leasing import own_devices
from harness.search.options import load_devices
from harness.search.session import Session
from harness.wording import counted

CASES = 20
TURN = 10
"""Ops take turns of this many cases, so a run that stops early has seen something of each kernel."""


class _TimeIsUp(Exception):
    """`--seconds` are over."""


def run(given: argparse.Namespace) -> ExitStatus:
    """Run some cases of each op on both GPUs and print where they differ."""
    devices = own_devices(None) if given.device is None else load_devices(given.device, None)
    request, options = survey(given, devices, EngineName.BOTH, turn=TURN)
    compared, progress, started = Compared(), ProgressLine(PROGRESS_EVERY_S), time.monotonic()
    reruns = list[tuple[Run, Future[Run]]]()
    with Session(options) as session:

        def add(run: Run) -> None:
            # The paired run is compiled without optimisation.  It shows whether the compiler is at fault.
            if faulted_on_hardware_only(run):
                reruns.append((run, session.pool.submit(request_paired_run(run, run.case))))
            else:
                compared.add(run)
            finished = compared.cases + len(reruns)
            progress(f"{finished} of {given.cases * len(request.pairs)} cases, last {run.case}")
            if given.seconds is not None and time.monotonic() - started > given.seconds:
                raise _TimeIsUp

        try:
            measure(request, session.pool, add)
        except _TimeIsUp:
            print_lines([f"the {given.seconds:g} s are over: not all cases were run\n"])
        for first, again in reruns:
            compared.add(first, again.result())
    conditions = f"{releases_of(options)}; at most {counted(given.cases, 'case')} an op and device, seed {given.seed}"
    print_lines([f"both GPUs with {conditions}\n", *lines(compared)])
    if compared.agrees:
        return ExitStatus.CLEAN
    return ExitStatus.FINDINGS if compared.has_findings else ExitStatus.NOTHING_CHECKED


def add_options(parser: Parser) -> None:
    parser.epilog = """\
example:
  harness conform suites/fla/norm.py --with fla-core==0.6.0 --seconds 600

Needs a GPU.  `harness fuzz --engine cuda,virtual` turns differences into findings.

exit status: 0 both agree; 1 they differ by more than rounding explains, or a case ended early;
2 usage or harness error; 3 nothing was compared
"""
    add_survey(parser, CASES)
    parser.add_argument(
        "--device", metavar="NAME,…", help="what the virtual GPU emulates (default: the model of the hardware GPU)"
    )
    parser.add_argument(
        "--seconds", type=duration, metavar="S", help="stop after S seconds and print the result so far"
    )
    add_time_limit(parser)
