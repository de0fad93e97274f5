"""`harness coverage`: which kernels of a library run here, and which abstain."""

import argparse
import os
import sys
import time

from hypothesis.configuration import set_hypothesis_home_dir
from rich.text import Text

from harness.cli.command import (
    CLEAN,
    NOTHING_JUDGED,
    Parser,
    add_engine,
    add_libraries,
    console,
    positive,
)
from harness.findings.versions import versions
from harness.model.run import Run
from harness.reports.coverage import lines
from harness.search.coverage import Order, measure
from harness.search.options import Options, engine_of, load_devices, load_ops, suite_files
from harness.search.plan import CaseBudget
from harness.search.session import FOLDER, Session, prepared

DEVICES = "a100,h200,b200,rtx-pro-6000"
"""One for each target of a data centre's and a workstation's: sm_80, sm_90, sm_100, sm_120."""
CASES = 6
TELL_EVERY_S = 5.0


def coverage(given: argparse.Namespace) -> int:
    """Run some cases of each op on each device and print which kernels ran."""
    suites = tuple(dict.fromkeys(file for suite in given.suites for file in suite_files(suite)))
    ops = load_ops(suites, tuple(given.op))
    devices = load_devices(",".join(given.device) or DEVICES, None)
    order = Order(ops=ops, devices=devices, cases=given.cases, seed=given.seed)
    options = Options(
        suites=suites,
        devices=devices,
        ops=ops,
        budget=CaseBudget(cases=given.cases * len(ops) * len(devices)),
        seed=given.seed,
        processes=given.processes or len(os.sched_getaffinity(0)),
        fixed_sm_count=True,
        libraries=tuple(given.libraries),
        time_limit_s=given.time_limit,
        engine=engine_of(given.engine),
    )
    set_hypothesis_home_dir(prepared(FOLDER) / "hypothesis")
    with Session(options) as session:
        measured = measure(order, session.pool, _Telling(options))
    screen = console()
    released = versions()
    tested = ", ".join((*options.libraries, f"triton=={released['triton']}", f"torch=={released['torch']}"))
    screen.print(Text(f"launches executed with {tested}; {given.cases} cases an op and device, seed {given.seed}\n"))
    for line in lines(measured, devices):
        screen.print(Text(line), soft_wrap=True)
    return CLEAN if measured.whole else NOTHING_JUDGED


def add_options(parser: Parser) -> None:
    """The options of `harness coverage`."""
    parser.epilog = (
        "Exit status: 0 every launch was executed and every op launched something on every device, 2 usage or harness "
        "error, 3 a launch abstained or an op launched nothing. Whether results are right is for `harness fuzz`."
    )
    parser.add_argument("suites", nargs="+", metavar="SUITE", help="a suite file, or a folder of them")
    parser.add_argument("--op", action="append", default=[], metavar="NAME", help="only this op; repeatable")
    parser.add_argument(
        "--device", action="append", default=[], metavar="NAME,…", help=f"as for fuzz; repeatable (usually {DEVICES})"
    )
    parser.add_argument(
        "--cases",
        type=positive,
        default=CASES,
        metavar="N",
        help="cases of each op on each device (usually %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="for other cases (usually %(default)s)")
    parser.add_argument("--processes", type=positive, metavar="N", help="cases at once (usually one a core)")
    add_libraries(parser)
    add_engine(parser)


class _Telling:
    """Tells on the error stream how far it is."""

    def __init__(self, options: Options) -> None:
        self._budget = options.budget
        self._done = 0
        self._told = time.monotonic()

    def __call__(self, run: Run) -> None:
        self._done += 1
        if time.monotonic() - self._told >= TELL_EVERY_S:
            self._told = time.monotonic()
            of = f" of {self._budget.cases}" if isinstance(self._budget, CaseBudget) else ""
            print(f"{self._done}{of} cases, last {run.case}", file=sys.stderr)
