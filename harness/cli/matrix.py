"""`harness matrix`: every kernel, with every autotune config, compiled for every GPU."""

import argparse
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from harness import catalogue, libraries
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
from harness.cli.output import ProgressLine, print_lines
from harness.compiling.build_cache import FOLDER, BuildCache
from harness.documents.build_matrix import BuildMatrix
from harness.documents.files import dumps, write_text
from harness.errors import UsageError, store_error
from harness.matrix.baseline import Figure, changes, read_baseline
from harness.matrix.collection import CollectionRequest
from harness.matrix.measuring import make_matrix
from harness.model.device import DeviceProfile
from harness.project_settings import JoinedByCommas
from harness.reports.html.matrix_page import matrix_page
from harness.reports.matrix_changes import change_lines
from harness.reports.matrix_csv import csv_text
from harness.reports.matrix_text import detail_lines, lines
from harness.search.options import options_of
from harness.suite_files import project_of

CASES = 6
TIME_LIMIT_S = 600.0
PROGRESS_EVERY_S = 5.0
WRITERS: Mapping[str, Callable[[BuildMatrix], str]] = {"json": dumps, "csv": csv_text, "html": matrix_page}
"""By option, what makes the text of its file."""


def run(arguments: argparse.Namespace) -> ExitStatus:
    """Make the matrix, print its summary and write the files that were asked for."""
    files = {option: json_path(getattr(arguments, option), option) for option in WRITERS}
    fail_on = _figures(arguments.fail_on, has_baseline=arguments.baseline is not None)
    baseline = read_baseline(arguments.baseline, arguments.libraries) if arguments.baseline else None
    plan = plan_of(arguments, device=",".join(device.slug for device in catalogue.nvidia()))
    options = replace(
        options_of(plan, arguments.settings, project_of(Path.cwd())),
        processes=arguments.processes or len(os.sched_getaffinity(0)),
    )
    _refuse_without_backend(options.devices)
    use_hypothesis_folder()
    request = CollectionRequest(
        options=options,
        library_paths=libraries.resolve(options.libraries, cache=arguments.settings.cache),
        cases=arguments.cases,
        specialisations=arguments.specialisations,
        kernels=tuple(arguments.kernel),
    )
    cache = BuildCache(Path(arguments.settings.cache) / FOLDER)
    try:
        matrix = make_matrix(request, cache, ProgressLine(PROGRESS_EVERY_S))
        for option, path in files.items():
            if path is not None:
                write_text(WRITERS[option](matrix), path)
    except OSError as error:
        raise store_error(error, cache.folder) from None
    print_lines(lines(matrix))
    if arguments.kernel:
        print_lines(detail_lines(matrix))
    if not matrix.rows:
        return ExitStatus.NOTHING_CHECKED
    if baseline is None:
        return ExitStatus.CLEAN
    differences = changes(baseline, matrix)
    print_lines(change_lines(differences))
    return ExitStatus.FINDINGS if differences.worse(fail_on) else ExitStatus.CLEAN


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  harness matrix fla:gla --with fla-core==0.6.0 --device blackwell --json m.json
  harness matrix fla:kda --with fla-core==0.6.0 --kernel l2norm_bwd_kernel

No GPU is needed.  Builds are kept in the harness's cache: an interrupted matrix goes on where it was.

exit status: 0 the matrix was made; 1 a figure of --fail-on is worse than in the baseline;
2 usage or harness error; 3 no kernel was launched
"""
    add_suites(parser)
    add_device(parser, "all NVIDIA GPUs")
    parser.add_argument(
        "--kernel",
        action="append",
        default=[],
        metavar="NAME",
        help="only this kernel, with registers and local memory of each config; repeatable",
    )
    parser.add_argument(
        "--cases",
        type=positive,
        default=CASES,
        metavar="N",
        help="cases of each op on each device, run to find its kernels (default: %(default)s)",
    )
    parser.add_rare(
        "--specialisations",
        type=positive,
        default=1,
        metavar="N",
        help="sets of types and constants of each kernel of a suite, users' sizes first (default: %(default)s)",
    )
    add_fixed_seed(parser)
    parser.add_rare("--processes", type=positive, metavar="N", help="compilers at once (default: one per core)")
    add_time_limit(parser, TIME_LIMIT_S)
    parser.add_argument("--json", metavar="FILE", help="write the matrix as JSON")
    parser.add_argument("--csv", metavar="FILE", help="write a line for each config on each GPU")
    parser.add_argument("--html", metavar="FILE", help="write a page with heat maps")
    parser.add_argument(
        "--baseline",
        type=Path,
        metavar="FILE",
        help="a matrix written by --json, of another release or Triton: print what changed since",
    )
    parser.add_argument(
        "--fail-on",
        action=JoinedByCommas,
        default="",
        metavar="FIGURE,…",
        help=f"figures that must not grow since the baseline: {', '.join(Figure)}",
    )
    add_libraries(parser)


def _refuse_without_backend(devices: Iterable[DeviceProfile]) -> None:
    lacking = catalogue.without_backend()
    if named := [device.slug for device in devices if device.slug in lacking]:
        raise UsageError(
            f"a matrix compiles to machine code, and Triton's wheel has no backend for Intel's GPUs: leave out "
            f"{', '.join(named)}"
        )


def _figures(text: str, *, has_baseline: bool) -> tuple[Figure, ...]:
    """Parse the value of `--fail-on`."""
    if text and not has_baseline:
        raise UsageError("--fail-on compares with a baseline: add --baseline FILE")
    return tuple(map(Figure, names_in("figure", text, Figure)))
