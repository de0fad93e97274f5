"""What the commands share that run a few cases of every op on every device: `coverage` and `conform`."""

import argparse
import os

from hypothesis.configuration import set_hypothesis_home_dir

from harness.cli.command import Parser, add_libraries, positive
from harness.findings.versions import versions
from harness.model.device import DeviceProfile
from harness.search.kernel_coverage import CoverageRequest
from harness.search.options import Options, load_ops, suite_files
from harness.search.plan import CaseBudget
from harness.search.session import FOLDER, prepared

TELL_EVERY_S = 5.0


def asked_for(
    given: argparse.Namespace, devices: tuple[DeviceProfile, ...], engine: str, *, turn: int | None = None
) -> tuple[CoverageRequest, Options]:
    """Which cases, `turn` of each op in turn, and how they are run.

    Hypothesis keeps what it knows in the harness's folder from now on.

    Raises:
        UsageError: a suite or an op does not exist.
    """
    suites = tuple(dict.fromkeys(file for suite in given.suites for file in suite_files(suite)))
    ops = load_ops(suites, tuple(given.op))
    order = CoverageRequest(ops=ops, devices=devices, cases=given.cases, seed=given.seed, turn=turn)
    set_hypothesis_home_dir(prepared(FOLDER) / "hypothesis")
    return order, Options(
        suites=suites,
        devices=devices,
        ops=order.ops,
        budget=CaseBudget(cases=given.cases * len(order.pairs)),
        seed=given.seed,
        processes=given.processes or len(os.sched_getaffinity(0)),
        fixed_sm_count=True,
        libraries=tuple(given.libraries),
        time_limit_s=given.time_limit,
        engine=engine,
    )


def tested(options: Options) -> str:
    """The releases that the cases run with: `fla-core==0.6.0, triton==3.6.0, torch==2.13.0`."""
    released = versions()
    return ", ".join((*options.libraries, f"triton=={released['triton']}", f"torch=={released['torch']}"))


def add_cases(parser: Parser, usual: int) -> None:
    """Which suites and ops, and how many cases of each."""
    parser.add_argument("suites", nargs="+", metavar="SUITE", help="a suite file, or a folder of them")
    parser.add_argument("--op", action="append", default=[], metavar="NAME", help="only this op; repeatable")
    parser.add_argument(
        "--cases",
        type=positive,
        default=usual,
        metavar="N",
        help="cases of each op on each device (usually %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="for other cases (usually %(default)s)")
    parser.add_argument("--processes", type=positive, metavar="N", help="cases at once (usually one a core)")
    add_libraries(parser)
