"""What `coverage` and `conform` share: both run a few cases of each op on each device."""

import argparse
import os

from harness.cli.command import Parser
from harness.cli.common_options import add_libraries, add_suites, libraries_of, positive
from harness.cli.hypothesis_folder import use_hypothesis_folder
from harness.findings.versions import versions
from harness.model.device import DeviceProfile
from harness.search.engine_choice import EngineChoice
from harness.search.kernel_coverage import CoverageRequest
from harness.search.options import Options, load_ops
from harness.search.plan import CaseBudget
from harness.suite_files import all_suite_files

PROGRESS_EVERY_S = 5.0


def survey(
    given: argparse.Namespace, devices: tuple[DeviceProfile, ...], engine: EngineChoice, *, turn: int | None = None
) -> tuple[CoverageRequest, Options]:
    """Return which cases to run, and how.  With `turn`, ops take turns of so many cases.

    Raises:
        UsageError: a suite or an op does not exist.
    """
    suites = all_suite_files(given.suites)
    ops = load_ops(suites, tuple(given.op))
    request = CoverageRequest(ops=ops, devices=devices, cases=given.cases, seed=given.seed, turn=turn)
    use_hypothesis_folder()
    return request, Options(
        suites=suites,
        devices=devices,
        ops=request.ops,
        budget=CaseBudget(cases=given.cases * len(request.pairs)),
        seed=given.seed,
        processes=given.processes or len(os.sched_getaffinity(0)),
        fixed_sm_count=True,
        libraries=libraries_of(given),
        time_limit_s=given.time_limit,
        engine=engine,
        settings=given.settings,
    )


def releases_of(options: Options) -> str:
    """Return the releases that the cases run with: `fla-core==0.6.0, triton==3.6.0, torch==2.13.0`."""
    installed = versions()
    return ", ".join((*options.libraries, f"triton=={installed['triton']}", f"torch=={installed['torch']}"))


def add_survey(parser: Parser, usual_cases: int) -> None:
    add_suites(parser)
    parser.add_argument(
        "--cases",
        type=positive,
        default=usual_cases,
        metavar="N",
        help="cases of each op on each device (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="S", help="another seed draws other cases (default: %(default)s)"
    )
    parser.add_argument("--processes", type=positive, metavar="N", help="cases at once (default: one per core)")
    add_libraries(parser)
