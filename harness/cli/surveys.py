"""`harness fuzz --survey`: what runs here, and whether both GPUs agree, by kernel.  Results are not judged."""

import argparse
import os
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from harness.cli.command import ExitStatus
from harness.cli.common_options import plan_of
from harness.cli.hypothesis_folder import use_hypothesis_folder
from harness.cli.output import ProgressLine, print_lines
from harness.errors import UsageError
from harness.findings.versions import versions
from harness.model.engine_traits import COMPARISON, ENGINES, VIRTUAL
from harness.model.paired_run import faulted_on_hardware_only, request_paired_run
from harness.model.plan import Plan
from harness.model.run import Run
from harness.reports import conformance, coverage_table
from harness.reports.interrupts import Interrupts
from harness.search.campaign_plan import CaseBudget
from harness.search.engine_choice import parse_engine
from harness.search.kernel_coverage import CoverageRequest, CoverageRun
from harness.search.options import Options, options_of
from harness.search.session import Session
from harness.suite_files import project_of
from harness.wording import counted

COVERAGE_CASES = 6
CONFORMANCE_CASES = 20
TURN = 10
"""Ops take turns of this many cases, so a run that stops early has seen something of each kernel."""
PROGRESS_EVERY_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Survey:
    """The cases of a survey, and the options of their session."""

    request: CoverageRequest
    options: Options
    conditions: str
    """The releases, cases and seed, in words."""
    deadline: float | None
    """The moment at which `--minutes` are over, as `time.monotonic` counts."""

    @property
    def left_s(self) -> float | None:
        """How much of the time is left; None without a limit."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    @property
    def count(self) -> int:
        """The number of cases of all ops and devices."""
        return self.request.cases * len(self.request.pairs)


class _End(StrEnum):
    """How a survey ended."""

    WHOLE = "complete"
    LATE = "the time is over"
    INTERRUPTED = "interrupted"


def _cover(options: argparse.Namespace) -> ExitStatus:
    """Run some cases of each op on each device and print which kernels ran."""
    survey = _survey(options, plan_of(options, seed=0), COVERAGE_CASES)
    with Interrupts() as interrupts:
        progress = ProgressLine(PROGRESS_EVERY_S, interrupts)
        finished = 0

        def show(run: Run) -> None:
            nonlocal finished
            finished += 1
            progress(f"{finished} of {counted(survey.count, 'case')}, last {run.case}")

        with Session(survey.options) as session:
            running = CoverageRun(survey.request, session.pool, show, deadline=survey.deadline)
            end = _ended(running.run, survey, interrupts)
        measured = running.coverage
        print_lines(
            [f"launches executed with {survey.conditions}\n", *coverage_table.lines(measured, survey.options.devices)]
        )
    if end is _End.INTERRUPTED:
        return ExitStatus.INTERRUPTED
    return ExitStatus.CLEAN if measured.whole else ExitStatus.NOTHING_CHECKED


def _conform(options: argparse.Namespace) -> ExitStatus:
    """Run some cases of each op on both GPUs and print where they differ."""
    engine = parse_engine(options.engine)
    engine = COMPARISON if engine is VIRTUAL else engine
    if not engine.compares:
        names = ", ".join(str(traits) for traits in ENGINES if traits.compares)
        raise UsageError(f"--survey conformance runs cases on two machines: one of {names}")
    plan = plan_of(options, engine=str(engine), seed=0)
    survey = _survey(options, plan, CONFORMANCE_CASES, turn=TURN)
    compared = conformance.Compared()
    reruns = list[tuple[Run, Future[Run]]]()
    with Interrupts() as interrupts:
        progress = ProgressLine(PROGRESS_EVERY_S, interrupts)
        with Session(survey.options) as session:

            def add(run: Run) -> None:
                # The paired run is compiled without optimisation.  It shows whether the compiler is at fault.
                if faulted_on_hardware_only(run):
                    reruns.append((run, session.pool.submit(request_paired_run(run, run.case))))
                else:
                    compared.add(run)
                progress(f"{compared.cases + len(reruns)} of {counted(survey.count, 'case')}, last {run.case}")

            running = CoverageRun(survey.request, session.pool, add, deadline=survey.deadline)

            def run() -> None:
                running.run()
                wait([again for _, again in reruns], survey.left_s)

            end = _ended(run, survey, interrupts)
            for first, again in reruns:
                compared.add(first, again.result() if again.done() else None)
        print_lines([f"both machines with {survey.conditions}\n", *conformance.lines(compared)])
    if compared.has_findings:
        return ExitStatus.FINDINGS
    if end is _End.INTERRUPTED:
        return ExitStatus.INTERRUPTED
    return ExitStatus.CLEAN if compared.agrees else ExitStatus.NOTHING_CHECKED


def _ended(run: Callable[[], object], survey: _Survey, interrupts: Interrupts) -> _End:
    """Run the cases, and say so if that ended early.  From then on signals are ignored: what was seen is printed."""
    end = _End.WHOLE
    try:
        run()
    except KeyboardInterrupt:
        end = _End.INTERRUPTED
    interrupts.end()
    if end is _End.WHOLE and survey.left_s == 0:
        end = _End.LATE
    if end is not _End.WHOLE:
        print_lines([f"{end}: not all cases were run\n"])
    return end


SURVEYS: Mapping[str, Callable[[argparse.Namespace], ExitStatus]] = MappingProxyType(
    {"coverage": _cover, "conformance": _conform}
)
"""By the value of `--survey`, what runs it."""


def releases_of(libraries: Iterable[str]) -> str:
    """Return the releases that cases run with: `fla-core==0.6.0, triton==3.6.0, torch==2.13.0`."""
    installed = versions()
    return ", ".join((*libraries, f"triton=={installed['triton']}", f"torch=={installed['torch']}"))


def _survey(arguments: argparse.Namespace, plan: Plan, usual_cases: int, turn: int | None = None) -> _Survey:
    """Return which cases to run, and how.  With `turn`, ops take turns of so many cases.

    Raises:
        UsageError: a suite or an op does not exist.
    """
    deadline = None if arguments.minutes is None else time.monotonic() + 60 * arguments.minutes
    options = options_of(
        replace(plan, seconds=None), arguments.settings, project_of(Path.cwd()), accepts=arguments.accepts
    )
    ops, devices, seed = options.ops, options.devices, options.seed
    cases = usual_cases if plan.cases is None else -(-plan.cases // (len(ops) * len(devices)))
    turn = turn or (None if deadline is None else TURN)
    request = CoverageRequest(ops=ops, devices=devices, cases=cases, seed=seed, turn=turn)
    use_hypothesis_folder()
    return _Survey(
        request=request,
        options=replace(
            options,
            budget=CaseBudget(cases=cases * len(request.pairs)),
            processes=arguments.processes or len(os.sched_getaffinity(0)),
            fixed_sm_count=True,
        ),
        deadline=deadline,
        conditions=f"{releases_of(options.libraries)}; {counted(cases, 'case')} an op and device, seed {seed}",
    )
