"""`harness fuzz`."""

import argparse
import json
import secrets
from dataclasses import replace
from datetime import date
from pathlib import Path

from hypothesis.configuration import set_hypothesis_home_dir
from rich.console import Console
from rich.text import Text

from harness.cli.command import (
    CLEAN,
    FINDINGS,
    INTERRUPTED,
    NOTHING_JUDGED,
    STORE,
    Parser,
    add_engine,
    add_fail_on,
    add_known,
    add_libraries,
    add_sanitizer,
    console,
    duration,
    natural,
    positive,
)
from harness.errors import HarnessError, UsageError
from harness.findings import store
from harness.findings.campaign_report import Report, report_document, report_of
from harness.findings.known_issues import KnownIssues, read_known_issues
from harness.model.device import DeviceProfile
from harness.model.finding import Finding
from harness.model.verdict import Severity
from harness.oracles import registry
from harness.reports.finding_text import Sources, quoted, render
from harness.reports.interrupts import Interrupts
from harness.reports.progress import Progress
from harness.reports.summary import summary
from harness.search import USUAL_DEVICES
from harness.search.leasing import own_devices
from harness.search.options import (
    CUDA,
    ON_GPUS,
    Options,
    engine_of,
    load_devices,
    load_ops,
    sanitizing_for,
    suite_files,
)
from harness.search.plan import CaseBudget, TimeBudget
from harness.search.session import FOLDER, Session, prepared
from harness.workers.spec import Isolation

USUAL_CASES = 300


def fuzz(given: argparse.Namespace) -> int:
    """Search for failures, make them small, print and keep them."""
    options = _options(given)
    report_path = Path(given.json) if given.json else None
    if report_path and not report_path.absolute().parent.is_dir():
        raise UsageError(f"--json {report_path}: there is no folder {report_path.parent}")
    set_hypothesis_home_dir(prepared(FOLDER) / "hypothesis")
    issues = read_known_issues(given.known, date.today())  # noqa: DTZ011 - a date that people write has no zone
    with Session(options, _say) as session:
        report, broken = _search(session, issues)
        sources = Sources(roots=session.sources)
    report = replace(report, findings=quoted(report.findings, sources))
    store.save(report.findings, STORE, lambda finding: render(finding, sources).plain, report.versions)
    if report_path:
        report_path.write_text(json.dumps(report_document(report), indent=2) + "\n", encoding="utf-8")
    screen = console()
    for finding in report.findings:
        screen.print(render(finding, sources, report.known), soft_wrap=True)
    for line in summary(report):
        screen.print(Text(line), soft_wrap=True)
    if broken:
        raise broken
    return _status(report, Severity(given.fail_on))


def _search(session: Session, issues: KnownIssues) -> tuple[Report, HarnessError | None]:
    """The whole search; an interrupt or an error of the harness ends it early, with what was found so far.

    Raises:
        HarnessError: nothing was found so far.
    """
    options = session.options
    findings = list[Finding]()
    cases = options.budget.cases if isinstance(options.budget, CaseBudget) else None
    interrupted, broken = False, None
    with (
        Interrupts() as interrupts,
        Progress(Console(stderr=True, highlight=False), interrupts, cases=cases) as progress,
    ):
        campaign = session.campaign(options.plan, progress)
        try:
            campaign.run()
            session.triage(campaign.tally, progress, findings.append)
        except KeyboardInterrupt:
            interrupted = True
        except HarnessError as error:
            if not campaign.tally.sightings:
                raise
            interrupted, broken = True, error
    findings += session.unconfirmed(campaign.tally, findings)
    report = report_of(options, campaign.tally, findings, interrupted=interrupted, issues=issues)
    return replace(report, waiting=session.waiting), broken


def _say(text: str) -> None:
    Console(stderr=True, highlight=False).print(Text(text), soft_wrap=True)


def _options(given: argparse.Namespace) -> Options:
    suites = tuple(dict.fromkeys(file for suite in given.suites for file in suite_files(suite)))
    if given.compilers is not None and engine_of(given.engine) != CUDA:
        raise UsageError("--compilers compile ahead of real GPUs: add --engine cuda")
    return Options(
        suites=suites,
        devices=_devices(given),
        oracles=tuple(registry.find(name).name for name in given.oracle),
        ops=load_ops(suites, tuple(given.op)),
        budget=TimeBudget(seconds=60 * given.minutes)
        if given.minutes
        else CaseBudget(cases=given.cases or USUAL_CASES),
        seed=secrets.randbelow(2**32) if given.seed is None else given.seed,
        processes=given.processes,
        gpus=given.gpus,
        compilers=given.compilers,
        fixed_sm_count=given.sm is not None,
        libraries=tuple(given.libraries),
        isolation=Isolation(given.isolation),
        time_limit_s=given.time_limit,
        engine=engine_of(given.engine),
        sanitizing=sanitizing_for(given.sanitizer, engine_of(given.engine), given.accepts),
    )


def _devices(given: argparse.Namespace) -> tuple[DeviceProfile, ...]:
    if given.device is None and engine_of(given.engine) in ON_GPUS:
        return own_devices(given.sm)
    return load_devices(given.device, given.sm)


def _status(report: Report, fail_on: Severity) -> int:
    if report.bad(fail_on):
        return FINDINGS
    if report.interrupted:
        return INTERRUPTED
    return CLEAN if report.judged else NOTHING_JUDGED


def add_options(parser: Parser) -> None:
    """The options of `harness fuzz`."""
    parser.add_argument("suites", nargs="+", metavar="SUITE", help="a suite file, or a folder of them")
    parser.add_argument("--op", action="append", default=[], metavar="NAME", help="only this op; repeatable")
    parser.add_argument(
        "--device",
        metavar="NAME,…",
        help=f"slugs, generations or targets: h200,blackwell,sm_120 (usually {USUAL_DEVICES})",
    )
    parser.add_argument("--sm", type=positive, metavar="N", help="pretend that each device has N SMs, and stay with it")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--cases", type=positive, metavar="N", help=f"how many cases to try (usually {USUAL_CASES})")
    budget.add_argument("--minutes", type=duration, metavar="M", help="begin new cases for so long")
    parser.add_argument("--seed", type=int, metavar="S", help="the same seed gives the same cases (else a random one)")
    parser.add_argument("--json", metavar="FILE", help="write the report there as JSON too")
    add_known(parser)
    parser.add_argument(
        "--isolation", choices=tuple(Isolation), default=Isolation.WORKER, help="how far cases are kept apart"
    )
    parser.add_argument(
        "--processes", type=positive, metavar="N", help="cases at once (usually one a core, or one a real GPU)"
    )
    parser.add_argument("--gpus", type=positive, metavar="N", help="real GPUs to use (usually all that are free)")
    parser.add_argument(
        "--compilers",
        type=natural,
        metavar="N",
        help="processes that compile ahead of real GPUs; 0 for none (usually the cores that are left)",
    )
    parser.add_argument(
        "--oracle", action="append", default=[], metavar="NAME", help="ask only this oracle; repeatable"
    )
    add_libraries(parser)
    add_fail_on(parser)
    add_engine(parser)
    add_sanitizer(parser)
