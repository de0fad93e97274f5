"""One search of `harness fuzz`: its campaign, its triage, and everything that is stored meanwhile."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from rich.console import Console

from harness.cli.search_output import FirstError, print_notice
from harness.documents.campaign import CampaignReport
from harness.errors import HarnessError, store_error
from harness.findings import store
from harness.findings.campaign_report import report_of
from harness.findings.known_issues import KnownIssues
from harness.findings.regressions import Regression, RegressionOutcome, outcome_of
from harness.findings.search_log import SearchLog
from harness.findings.versions import versions
from harness.fleet.event_stream import CaseCount, EventStream
from harness.model.case import Case
from harness.model.finding import Confirmation, Finding
from harness.model.verdict import Fail, Signature
from harness.reports.finding_text import Sources, quoted, render
from harness.reports.interrupts import Interrupts
from harness.reports.progress import Progress
from harness.search.campaign_plan import CaseBudget
from harness.search.campaign_statistics import CampaignStatistics, Sighting, Trial
from harness.search.cause_groups import join_untried
from harness.search.miscompilations import merged_miscompilations
from harness.search.session import Session
from harness.wording import counted


class SearchRun:
    """The campaign and the triage of one command.  An interrupt or an error ends both; what was found stays."""

    def __init__(
        self,
        session: Session,
        interrupts: Interrupts,
        events: EventStream | None = None,
        regressions: Sequence[Regression] = (),
    ) -> None:
        self.sources = Sources(roots=session.sources)
        self.errors = FirstError()
        """What ended the search early, or what could not be written."""
        self._session = session
        self._interrupts = interrupts
        self._events = events
        self._regressions = regressions
        self._outcomes: list[RegressionOutcome] = []
        self._statistics = CampaignStatistics()
        self._is_interrupted = False
        self._triage_s = 0.0
        self._log = SearchLog(store.FOLDER, lambda finding: render(finding, self.sources).plain, versions())

    @property
    def was_interrupted(self) -> bool:
        """True if the search did not come to its end."""
        return self._is_interrupted

    def run(self) -> None:
        """Replay the regressions, search, then confirm and shrink.

        Raises:
            HarnessError: nothing was found so far.
        """
        session, budget = self._session, self._session.options.budget
        limit = session.deadline or (budget.cases if isinstance(budget, CaseBudget) else 0)
        try:
            self._replay_regressions()
            screen = Console(stderr=True, highlight=False)
            with Progress(screen, self._interrupts, limit, self._sight, session.pool.activity) as progress:
                observer = progress if self._events is None else _Telling(progress, self._events)
                campaign = session.campaign(session.options.plan, observer)
                self._statistics = campaign.statistics
                campaign.run()
                begun = time.monotonic()
                session.triage(self._statistics, progress, self._keep)
                self._triage_s = time.monotonic() - begun
        except KeyboardInterrupt:
            self._is_interrupted = True
        except OSError as error:  # of a full disk, or of a folder that was deleted meanwhile
            self._is_interrupted = True
            self.errors.keep(store_error(error, store.FOLDER))
        except HarnessError as error:
            if not self._statistics.sightings and not any(outcome.findings for outcome in self._outcomes):
                raise
            self._is_interrupted = True
            self.errors.keep(error)

    def report(self, issues: KnownIssues) -> CampaignReport:
        """Return the report, after each finding is stored as it is now."""
        latest = self._latest()
        for sighting, finding in join_untried(latest) if self._is_interrupted else latest:
            self.errors.attempt(partial(self._store, sighting.fail.signature, finding))
        for signature, finding in merged_miscompilations(self._log.findings).items():
            self.errors.attempt(partial(self._store, signature, finding))
        in_order = (sighting.fail.signature for sighting in self._statistics.in_order())
        findings = {signature: self._log.findings[signature] for signature in in_order if signature in self._log}
        for finding in (finding for outcome in self._outcomes for finding in outcome.findings):
            if findings.setdefault(finding.fail.signature, finding) is finding:
                self.errors.attempt(partial(self._store, finding.fail.signature, finding))
        interrupted, options = self._is_interrupted, self._session.options
        report = report_of(
            options,
            self._statistics,
            findings.values(),
            interrupted=interrupted,
            issues=issues,
        )
        return replace(
            report,
            kernel_lines=self._statistics.line_coverage.rows(self.sources.short),
            gpu_wait_share=self._session.gpu_wait_share,
            triage_seconds=round(self._triage_s, 3),
            regressions=len(self._regressions),
            unchecked_regressions=tuple(self._unchecked_regressions()),
        )

    def _replay_regressions(self) -> None:
        if self._regressions:
            print_notice(f"replaying {counted(len(self._regressions), 'kept regression')} first")
        for regression in self._regressions:
            self._interrupts.check()
            outcome = outcome_of(regression, self._session)
            self._outcomes.append(outcome)
            for finding in outcome.findings:
                print_notice(f"shows again: {regression}: {finding.fail.signature}")

    def _unchecked_regressions(self) -> Iterator[str]:
        yield from (outcome.obstacle for outcome in self._outcomes if outcome.obstacle)
        yield from (f"{regression}: the search ended before" for regression in self._regressions[len(self._outcomes) :])

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

    def _sight(self, fail: Fail, trial: Trial) -> None:
        """Store a failure before it is printed."""
        del trial
        self._store(fail.signature, self._session.not_tried(self._statistics.sightings[fail.signature]))

    def _keep(self, sighting: Sighting, finding: Finding) -> None:
        self._store(sighting.fail.signature, finding)

    def _store(self, signature: Signature, finding: Finding) -> None:
        (complete,) = quoted((finding,), self.sources)
        if self._events is not None:
            self._events.found(complete)
        self._log.keep(signature, complete)


class _Telling:
    """An observer of a campaign that also tells its progress as events."""

    def __init__(self, progress: Progress, events: EventStream) -> None:
        self._progress = progress
        self._events = events

    def tick(self, statistics: CampaignStatistics, latest: Case | None) -> None:
        self._progress.tick(statistics, latest)
        self._events.progress(CaseCount(cases=statistics.cases, failures=len(statistics.sightings)))

    def sighted(self, fail: Fail, trial: Trial) -> None:
        self._progress.sighted(fail, trial)
