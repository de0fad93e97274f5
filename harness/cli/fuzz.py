"""`harness fuzz`."""

import argparse
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.text import Text

from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import (
    add_engine,
    add_fail_on,
    add_known,
    add_libraries,
    add_sanitizer,
    add_suites,
    duration,
    json_path,
    natural,
    positive,
)
from harness.cli.hypothesis_folder import use_hypothesis_folder
from harness.cli.output import console, print_lines
from harness.documents import files
from harness.documents.campaign import CampaignReport
from harness.errors import HarnessError, StoreError, UsageError, store_error
from harness.findings import store
from harness.findings.campaign_report import report_of
from harness.findings.known_issues import KnownIssues, read_known_issues
from harness.findings.search_log import SearchLog
from harness.findings.versions import versions
from harness.model.device import DeviceProfile
from harness.model.finding import Confirmation, Finding
from harness.model.verdict import Fail, Severity, Signature
from harness.oracles import registry
from harness.reports.finding_text import Sources, quoted, render
from harness.reports.interrupts import Interrupts
from harness.reports.progress import Progress
from harness.reports.summary import summary
from harness.search import USUAL_DEVICES
from harness.search.campaign_statistics import CampaignStatistics, Sighting, Trial
from harness.search.cause_groups import join_untried
from harness.search.engine_choice import EngineName, parse_engine
from harness.search.leasing import own_devices
from harness.search.miscompilations import merged_miscompilations
from harness.search.options import TRIAGE_S, TRIAGE_SHARE, Options, load_devices, load_ops, sanitizer_for
from harness.search.plan import CaseBudget, TimeBudget
from harness.search.session import Session
from harness.suite_files import all_suite_files, named_in_project, project_of
from harness.workers.spec import Isolation

USUAL_CASES = 300


def run(given: argparse.Namespace) -> ExitStatus:
    """Search for failures, shrink them, store and print them."""
    options = _options(given)
    report_path = json_path(given.json)
    use_hypothesis_folder()
    issues = read_known_issues(given.known, date.today())  # noqa: DTZ011 - a date that people write has no zone
    with Interrupts() as interrupts:
        with Session(options, _print_notice) as session:
            search = _Search(session, interrupts)
            search.run()
        report = search.report(issues)
        if report_path:
            search.attempt(lambda: _write(report, report_path))
        screen = console()
        for finding in report.findings:
            screen.print(render(finding, search.sources, report.known_findings), soft_wrap=True)
        print_lines(summary(report))
    if search.error:
        raise search.error
    return _status(report, Severity(given.fail_on))


class _Search:
    """The campaign and the triage of one command.  An interrupt or an error ends both; what was found stays."""

    def __init__(self, session: Session, interrupts: Interrupts) -> None:
        self.sources = Sources(roots=session.sources)
        self.error: HarnessError | None = None
        """What ended the search early, or what could not be written."""
        self._session = session
        self._interrupts = interrupts
        self._statistics = CampaignStatistics()
        self._is_interrupted = False
        self._triage_s = 0.0
        self._log = SearchLog(store.FOLDER, lambda finding: render(finding, self.sources).plain, versions())

    def run(self) -> None:
        """Search, then confirm and shrink.

        Raises:
            HarnessError: nothing was found so far.
        """
        session, budget = self._session, self._session.options.budget
        limit = session.deadline or (budget.cases if isinstance(budget, CaseBudget) else 0)
        try:
            with Progress(Console(stderr=True, highlight=False), self._interrupts, limit, self._sight) as progress:
                campaign = session.campaign(session.options.plan, progress)
                self._statistics = campaign.statistics
                campaign.run()
                begun = time.monotonic()
                session.triage(self._statistics, progress, self._keep)
                self._triage_s = time.monotonic() - begun
        except KeyboardInterrupt:
            self._is_interrupted = True
        except OSError as error:  # of a full disk, or of a folder that was deleted meanwhile
            self._is_interrupted, self.error = True, store_error(error, store.FOLDER)
        except HarnessError as error:
            if not self._statistics.sightings:
                raise
            self._is_interrupted, self.error = True, error
        self._interrupts.end()

    def report(self, issues: KnownIssues) -> CampaignReport:
        """Return the report, after each finding is stored as it is now."""
        latest = self._latest()
        for sighting, finding in join_untried(latest) if self._is_interrupted else latest:
            self.attempt(partial(self._store, sighting.fail.signature, finding))
        for signature, finding in merged_miscompilations(self._log.findings).items():
            self.attempt(partial(self._store, signature, finding))
        in_order = (sighting.fail.signature for sighting in self._statistics.in_order())
        found = (self._log.findings[signature] for signature in in_order if signature in self._log)
        interrupted, options = self._is_interrupted, self._session.options
        report = report_of(options, self._statistics, found, interrupted=interrupted, issues=issues)
        return replace(report, gpu_wait_share=self._session.gpu_wait_share, triage_seconds=round(self._triage_s, 3))

    def _latest(self) -> list[tuple[Sighting, Finding]]:
        """Return the latest finding of each sighting that is no symptom."""
        latest: list[tuple[Sighting, Finding]] = []
        for sighting in self._statistics.in_order():
            finding = self._log.findings.get(sighting.fail.signature)
            if finding is None and self._log.is_symptom(sighting.fail.signature):
                continue
            if finding is None or finding.confirmation is Confirmation.NOT_TRIED:
                symptoms = finding.symptoms if finding else ()
                finding = replace(self._session.not_tried(sighting), symptoms=symptoms)  # with all cases that showed it
            latest.append((sighting, finding))
        return latest

    def attempt(self, write: Callable[[], None]) -> None:
        """Write something.  A full disk must not keep the rest from being printed."""
        try:
            write()
        except StoreError as error:
            self.error = self.error or error

    def _sight(self, fail: Fail, trial: Trial) -> None:
        """Store a failure before it is printed."""
        del trial
        self._store(fail.signature, self._session.not_tried(self._statistics.sightings[fail.signature]))

    def _keep(self, sighting: Sighting, finding: Finding) -> None:
        self._store(sighting.fail.signature, finding)

    def _store(self, signature: Signature, finding: Finding) -> None:
        (complete,) = quoted((finding,), self.sources)
        self._log.keep(signature, complete)


def _write(report: CampaignReport, path: Path) -> None:
    try:
        files.write(report, path)
    except OSError as error:
        raise store_error(error, path) from None


def _print_notice(text: str) -> None:
    Console(stderr=True, highlight=False).print(Text(text), soft_wrap=True)


def _options(given: argparse.Namespace) -> Options:
    project = project_of(Path.cwd())
    suites = tuple(map(named_in_project, all_suite_files(given.suites)))
    engine = parse_engine(given.engine)
    if given.minutes and given.triage_minutes != TRIAGE_S / 60:
        raise UsageError("--triage-minutes goes with --cases: --minutes covers confirming and shrinking")
    if given.compilers is not None and engine is not EngineName.CUDA:
        raise UsageError("--compilers compile ahead of real GPUs: add --engine cuda")
    return Options(
        suites=suites,
        devices=_devices(given),
        oracles=tuple(registry.find(name).name for name in given.oracle),
        ops=load_ops(suites, tuple(given.op), project),
        project=project,
        budget=TimeBudget(seconds=60 * given.minutes, triage_share=TRIAGE_SHARE)
        if given.minutes
        else CaseBudget(cases=given.cases or USUAL_CASES),
        triage_s=60 * given.triage_minutes,
        seed=secrets.randbelow(2**32) if given.seed is None else given.seed,
        processes=given.processes,
        gpus=given.gpus,
        compilers=given.compilers,
        fixed_sm_count=given.sm is not None,
        libraries=tuple(given.libraries),
        isolation=Isolation(given.isolation),
        time_limit_s=given.time_limit,
        engine=engine,
        sanitizer=sanitizer_for(given.sanitizer, engine, given.accepts, given.settings),
        settings=given.settings,
    )


def _devices(given: argparse.Namespace) -> tuple[DeviceProfile, ...]:
    if given.device is None and parse_engine(given.engine).needs_gpu:
        return own_devices(given.sm)
    return load_devices(given.device, given.sm)


def _status(report: CampaignReport, fail_on: Severity) -> ExitStatus:
    if report.failures(fail_on):
        return ExitStatus.FINDINGS
    if report.suite_errors:
        return ExitStatus.ERROR
    if report.interrupted:
        return ExitStatus.INTERRUPTED
    return ExitStatus.CLEAN if report.checked and not report.unchecked_ops else ExitStatus.NOTHING_CHECKED


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  harness fuzz suites/fla/norm.py --with fla-core==0.6.0 --device b200,rtx-5090 --minutes 5
  harness fuzz suites --with ../flash-linear-attention --op rms_norm --device l4 --sm 20 --seed 1
  harness fuzz suites/fla/norm.py --with fla-core==0.6.0 --engine cuda --sanitizer memcheck

exit status: 0 clean, 1 findings, 2 usage or harness error, 3 no findings, but of some op no case could be checked on
any device, 130 interrupted without findings
"""
    add_suites(parser)
    parser.add_argument(
        "--device",
        metavar="NAME,…",
        help="GPUs to emulate, by name, architecture or compile target: h200,blackwell,sm_120 "
        f"(default: {USUAL_DEVICES}; on hardware GPUs, their own model)",
    )
    parser.add_argument(
        "--sm", type=positive, metavar="N", help="emulate N SMs on each device (default: its own SM count, and others)"
    )
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--cases", type=positive, metavar="N", help=f"number of cases (default: {USUAL_CASES})")
    budget.add_argument(
        "--minutes", type=duration, metavar="M", help="minutes for the whole command, confirming and shrinking included"
    )
    parser.add_argument(
        "--triage-minutes",
        type=duration,
        default=TRIAGE_S / 60,
        metavar="M",
        help="minutes to confirm and shrink what --cases found (default: %(default)g)",
    )
    parser.add_argument("--seed", type=int, metavar="S", help="equal seeds draw equal cases (default: random)")
    parser.add_argument(
        "--oracle",
        action="append",
        default=[],
        metavar="NAME",
        help="only this oracle: write-overlap, bounds, float64-values, …; repeatable (default: all)",
    )
    parser.add_argument("--json", metavar="FILE", help="also write the report as JSON")
    add_known(parser)
    add_fail_on(parser)
    add_libraries(parser)
    add_engine(parser)
    add_sanitizer(parser)
    _add_processes(parser)


def _add_processes(parser: Parser) -> None:
    parser.add_argument(
        "--isolation",
        choices=tuple(Isolation),
        default=Isolation.WORKER,
        help="worker: a process runs case after case; case: each case has a process of its own (default: %(default)s)",
    )
    parser.add_argument(
        "--processes", type=positive, metavar="N", help="cases at once (default: one per core, or two to four per GPU)"
    )
    parser.add_argument("--gpus", type=positive, metavar="N", help="hardware GPUs to use (default: all free ones)")
    parser.add_argument(
        "--compilers",
        type=natural,
        metavar="N",
        help="processes that compile kernels before a hardware GPU needs them (default: the remaining cores)",
    )
