"""`harness fuzz`."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from harness.cli.chunk_runs import CHUNKS, ChunkRuns, read_chunk
from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import (
    add_device,
    add_engine,
    add_fail_on,
    add_known,
    add_libraries,
    add_no_resident,
    add_sanitizer,
    add_show_output,
    add_suites,
    environment_variable,
    json_path,
    minutes,
    natural,
    plan_of,
    positive,
)
from harness.cli.fleet_run import run_on_ray
from harness.cli.hypothesis_folder import use_hypothesis_folder
from harness.cli.search_output import ReportFiles, print_notice, print_report, status_of, write
from harness.cli.search_run import SearchRun
from harness.cli.surveys import CONFORMANCE_CASES, COVERAGE_CASES, SURVEYS
from harness.errors import UsageError
from harness.findings.known_issues import KnownIssues, read_known_issues
from harness.findings.regressions import Regression, regressions_of
from harness.findings.trust import remember
from harness.fleet.chunk_plan import chunks_of
from harness.fleet.event_stream import EventStream
from harness.fleet.shards import parse_shard
from harness.model.plan import TRIAGE_S, Plan
from harness.model.verdict import Severity
from harness.reports.interrupts import Interrupts
from harness.reports.summary import next_steps
from harness.search import USUAL_DEVICES
from harness.search.engine_choice import parse_engine
from harness.search.options import USUAL_CASES, Options, options_of
from harness.search.session import Session
from harness.suite_files import project_of
from harness.wording import counted
from harness.workers.spec import Isolation


def run(arguments: argparse.Namespace) -> ExitStatus:
    """Search for failures, shrink them, store and print them."""
    chunk = read_chunk(arguments) if arguments.chunk else None
    if chunk is None and not arguments.suites:
        raise UsageError("the following arguments are required: SUITE (see harness fuzz --help)")
    if arguments.survey and (arguments.json or arguments.lcov):
        raise UsageError(f"--{'json' if arguments.json else 'lcov'} goes with a search: a survey prints a table")
    if arguments.survey:
        return SURVEYS[arguments.survey](arguments)
    shard = parse_shard(arguments.shard, os.environ) if arguments.shard else None
    if shard is not None and arguments.seed is None:
        raise UsageError("the shards of one search need one seed: add --seed N, the same for all of them")
    plan = plan_of(arguments) if chunk is None else chunk.plan
    options = _options(arguments, plan)
    files = ReportFiles(json=json_path(arguments.json), lcov=json_path(arguments.lcov, "lcov"))
    remember(plan.suites, plan.libraries, plan.env.items())
    use_hypothesis_folder()
    issues = read_known_issues(arguments.known, date.today())  # noqa: DTZ011 - a date that people write has no zone
    if arguments.events and chunk is None:
        raise UsageError("--events tells of one chunk: add --chunk FILE")
    is_part = bool(arguments.op)
    regressions = regressions_of(options, arguments.suites, is_part=is_part) if chunk is None else ()
    if arguments.ray:
        if regressions:
            print_notice(
                f"{counted(len(regressions), 'kept regression')} not replayed on a cluster: pytest suites does"
            )
        return run_on_ray(arguments, options, issues, files)
    if chunk is not None:
        runs = ChunkRuns([chunk], files, events=EventStream(_print_event) if arguments.events else None)
    elif shard is not None:
        runs = ChunkRuns(chunks_of(options, shard.count, plan.env), files, shard, regressions=regressions)
    else:
        return _search(options, files, issues, Severity(arguments.fail_on), regressions)
    return runs.run(options, issues, Severity(arguments.fail_on))


def _search(
    options: Options,
    files: ReportFiles,
    issues: KnownIssues,
    fail_on: Severity,
    regressions: Sequence[Regression],
) -> ExitStatus:
    with Interrupts() as interrupts:
        with Session(options, print_notice) as session:
            search = SearchRun(session, interrupts, regressions=regressions)
            search.run()
            interrupts.end()
        report = search.report(issues)
        if path := files.json:
            search.errors.attempt(lambda: write(report, path))
        print_report(report, search.sources, files.lcov)
        for line in next_steps(report):
            print_notice(line)
    search.errors.raise_kept()
    return status_of(report, fail_on)


def _options(options: argparse.Namespace, plan: Plan) -> Options:
    if options.minutes and options.triage_minutes != TRIAGE_S / 60:
        raise UsageError("--triage-minutes goes with --cases: --minutes covers confirming and shrinking")
    if options.compilers is not None and not parse_engine(plan.engine).is_hardware:
        raise UsageError("--compilers compile ahead of real GPUs: add --engine cuda")
    return replace(
        options_of(plan, options.settings, project_of(Path.cwd()), accepts=options.accepts),
        processes=options.processes,
        gpus=options.gpus,
        compilers=options.compilers,
        shows_output=options.show_output,
    )


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  harness fuzz fla:norm --with fla-core==0.6.0 --device b200 --minutes 5
  harness fuzz my_suite.py --with ../my-library --op rms_norm --sm 20 --seed 1
  harness fuzz fla:norm --with fla-core==0.6.0 --engine cuda
  harness fuzz liger --with liger-kernel==0.8.5 --survey coverage

exit status: 0 clean, 1 findings, 2 usage or harness error, 3 something was not
checked, or under 10 cases in a minute, 130 interrupted without findings
"""
    add_suites(parser, required=False)
    add_device(parser, f"{USUAL_DEVICES}; on hardware GPUs, their own model")
    parser.add_argument(
        "--sm", type=positive, metavar="N", help="emulate N SMs on each device (default: its own SM count, and others)"
    )
    parser.add_rare(
        "--env",
        action="append",
        type=environment_variable,
        default=[],
        metavar="NAME=VALUE,…",
        help="environment variable of the library with values to try besides leaving it unset; repeatable "
        "(default: what suites declare)",
    )
    parser.add_argument("--cases", type=positive, metavar="N", help=f"number of cases (default: {USUAL_CASES})")
    parser.add_argument(
        "--minutes",
        type=minutes,
        metavar="M",
        help="minutes, shrinking included; --cases may end it sooner",
    )
    parser.add_rare(
        "--triage-minutes",
        type=minutes,
        default=TRIAGE_S / 60,
        metavar="M",
        help="minutes to confirm and shrink what --cases found (default: %(default)g)",
    )
    parser.add_rare(
        "--survey",
        choices=tuple(SURVEYS),
        help="judge no results: coverage prints which kernels run here on which GPUs, conformance how far emulated and "
        f"hardware GPU agree (default of --cases: {COVERAGE_CASES} and {CONFORMANCE_CASES} of each op on each device)",
    )
    parser.add_argument("--seed", type=int, metavar="S", help="equal seeds draw equal cases (default: random)")
    parser.add_argument(
        "--oracle",
        action="append",
        default=[],
        metavar="NAME",
        help="only this oracle: write-overlap, bounds, float64-values, …; repeatable (default: all)",
    )
    _add_files(parser)
    add_known(parser)
    add_fail_on(parser)
    add_libraries(parser)
    add_engine(parser)
    add_no_resident(parser)
    add_sanitizer(parser)
    add_show_output(parser)
    _add_processes(parser)
    _add_machines(parser)


def _add_files(parser: Parser) -> None:
    parser.add_argument("--json", metavar="FILE", help="also write the report as JSON")
    parser.add_rare(
        "--lcov",
        metavar="FILE",
        help="also write the executed lines of kernels as an LCOV tracefile, and list the others",
    )


def _print_event(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


def _add_machines(parser: Parser) -> None:
    divided = parser.add_mutually_exclusive_group()
    divided.add_argument(
        "--shard",
        metavar="I/N",
        help="run the I-th of N equal parts, for harness report --merge; auto: as the CI system says",
    )
    parser.add_rare(
        "--chunk",
        group=divided,
        type=Path,
        metavar="FILE",
        help=f"run one chunk of a search again, from {CHUNKS}/ID.json",
    )
    divided.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="run the search on a Ray cluster; auto: that of this machine (extra: cluster)",
    )
    parser.add_rare(
        "--events",
        action="store_true",
        help="with --chunk: print progress and findings as JSON lines, for another program",
    )


def _add_processes(parser: Parser) -> None:
    parser.add_rare(
        "--isolation",
        choices=tuple(Isolation),
        default=Isolation.WORKER,
        help="worker: a process runs case after case; case: each case has a process of its own (default: %(default)s)",
    )
    parser.add_rare(
        "--processes", type=positive, metavar="N", help="cases at once (default: one per core, or two to four per GPU)"
    )
    parser.add_rare("--gpus", type=positive, metavar="N", help="hardware GPUs to use (default: all free ones)")
    parser.add_rare(
        "--compilers",
        type=natural,
        metavar="N",
        help="processes that compile kernels before a hardware GPU needs them (default: the remaining cores)",
    )
