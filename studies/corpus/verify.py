"""Verify one bug: search the last bad release until the bug shows, then search the first fixed release.

Both searches draw from the same seed.  The second runs as many cases as the first needed, and at least
`MIN_FIXED_CASES`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import LibraryError, MissingPart, SuiteError, UsageError
from harness.model.case import Case
from harness.model.engine_traits import VIRTUAL
from harness.model.finding import Finding
from harness.model.plan import TIME_LIMIT_S, Plan
from harness.model.verdict import Fail
from harness.search.campaign_statistics import CampaignStatistics, Trial
from harness.search.options import options_of
from harness.search.session import Session
from harness.search.triage import Triage
from harness.settings import Settings
from harness.wording import counted
from studies.corpus.bugs import HistoricalBug

MIN_FIXED_CASES = 300
"""At least so many cases must pass with the fixed release."""
MAX_OTHER_SIGNATURES = 3
"""How many other signatures are recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBudget:
    """The limits and settings of a search for one bug."""

    cases: int
    seconds: float
    processes: int
    seed: int
    time_limit_s: float = TIME_LIMIT_S
    engine: str = VIRTUAL.factory
    """Module and name of the engine's factory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBug:
    """The bug, confirmed alone in a fresh process."""

    signature: str
    source_line: str
    """Empty if it is not known."""
    cases: int
    """The number of the case that showed the bug, in the order drawn."""
    seconds: float
    """Time until the bug showed, from the start of the workers on."""
    smallest: Case
    finding: str
    """The id, which is the name of its folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of the search on one release."""

    release: tuple[str, ...]
    cases: int
    checked: int
    """Cases that did not abstain."""
    seconds: float
    out_of_time: bool = False
    """True if time ended before all cases ran."""
    found: FoundBug | None = None
    other_signatures: tuple[str, ...] = ()
    """Signatures of other failures, the most frequent first."""
    obstacle: str = ""
    """The reason, if nothing could be searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BugRecord:
    """One bug and the results of its searches."""

    bug: HistoricalBug
    budget: SearchBudget
    bad: SearchResult | None = None
    """None if the bug is not searched for."""
    fixed: SearchResult | None = None
    """None if the bug was not found before, so the fixed release would prove nothing, or if no release has the fix."""

    @property
    def is_open(self) -> bool:
        """True if the bad release shows the bug, and no release has the fix."""
        return self.bad is not None and self.bad.found is not None and not self.bug.first_fixed

    @property
    def is_confirmed(self) -> bool:
        """True if the bad release shows the bug, and the fixed one does not in at least as many cases."""
        return (
            self.bad is not None
            and self.bad.found is not None
            and self.fixed is not None
            and self.fixed.found is None
            and self.fixed.checked > 0
            and not (self.fixed.out_of_time and self.fixed.cases < self.bad.found.cases)
        )

    @property
    def was_checked(self) -> bool:
        """True if any case could be checked."""
        return self.bad is not None and self.bad.checked > 0


Report = Callable[[str], object]


def search_for_bug(
    bug: HistoricalBug, budget: SearchBudget, settings: Settings, report: Report, keep: Callable[[Finding], object]
) -> BugRecord:
    """Search for the bug; `report` receives progress, `keep` the finding.  Obstacles are values in the record."""
    if bug.not_searched:
        return BugRecord(bug=bug, budget=budget)
    search = _Search(bug=bug, settings=settings, report=report, keep=keep)
    bad = search.run(bug.release(bug.last_bad), budget)
    if bad.found is None or not bug.first_fixed:
        return BugRecord(bug=bug, budget=budget, bad=bad)
    enough = replace(budget, cases=max(min(MIN_FIXED_CASES, budget.cases), bad.found.cases))
    fixed = search.run(bug.release(bug.first_fixed), enough)
    return BugRecord(bug=bug, budget=budget, bad=bad, fixed=fixed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """The search for one bug, to be run on several releases."""

    bug: HistoricalBug
    settings: Settings
    report: Report
    keep: Callable[[Finding], object]

    def run(self, release: tuple[str, ...], budget: SearchBudget) -> SearchResult:
        bug = self.bug
        try:
            plan = Plan(
                suites=(bug.suite,),
                op=bug.ops,
                device=bug.device,
                env=bug.environment,
                cases=budget.cases,
                seed=budget.seed,
                libraries=release,
                time_limit_s=budget.time_limit_s,
                engine=budget.engine,
            )
            options = replace(options_of(plan, self.settings, Path()), processes=budget.processes)
            with Session(options) as session:
                observer = _BugObserver(bug, session, budget.seconds, self.report)
                statistics = observer.campaign.run()
                found_bug = observer.found_bug(self.keep)
        except (LibraryError, MissingPart, SuiteError, UsageError) as error:
            return SearchResult(release=release, cases=0, checked=0, seconds=0.0, obstacle=str(error))
        return SearchResult(
            release=release,
            cases=statistics.cases,
            checked=statistics.checked,
            seconds=round(statistics.seconds, 1),
            out_of_time=observer.out_of_time,
            found=found_bug,
            other_signatures=_others(bug, statistics),
        )


class _BugObserver:
    """Observes one search, and ends it when the bug is confirmed or time is up."""

    def __init__(self, bug: HistoricalBug, session: Session, seconds: float, report: Report) -> None:
        self._bug = bug
        self._session = session
        self._seconds = seconds
        self._begun = time.monotonic()
        self._report = report
        self.campaign = session.campaign(session.options.plan, self)
        self._sighted: tuple[Fail, float] | None = None
        self.out_of_time = False
        self._triage = Triage(
            runner=session.pool,
            judge=session.judge,
            libraries=session.options.libraries,
            trying=lambda _: None,
        )

    def tick(self, statistics: CampaignStatistics, trying: Case | None) -> None:
        """End the search when time is up."""
        del trying
        libraries = ", ".join(self._session.options.libraries)
        self._report(f"{self._bug.id}: {counted(statistics.cases, 'case')} with {libraries}")
        if time.monotonic() - self._begun >= self._seconds:
            self.out_of_time = True
            self.campaign.stop()

    def sighted(self, fail: Fail, trial: Trial) -> None:
        """End the search if this is the bug and it repeats."""
        if not self._bug.is_shown_by(fail.signature):
            return
        seconds = time.monotonic() - self._begun
        if self._triage.repeats(fail, trial):
            self._sighted = (fail, seconds)
            self.campaign.stop()

    def found_bug(self, keep: Callable[[Finding], object]) -> FoundBug | None:
        """Shrink and return what was found, if anything."""
        if self._sighted is None:
            return None
        fail, seconds = self._sighted
        self._report(f"{self._bug.id}: making {fail.signature} small")
        sighting = self.campaign.statistics.sightings[fail.signature]
        finding = self._triage.finding(sighting, self._session.options.limits)
        keep(finding)
        return FoundBug(
            signature=str(fail.signature),
            source_line=str(finding.fail.source or ""),
            cases=sighting.first_seen.case_number,
            seconds=round(seconds, 1),
            smallest=finding.case,
            finding=finding.id,
        )


def _others(bug: HistoricalBug, statistics: CampaignStatistics) -> tuple[str, ...]:
    """Return the most frequent signatures that are not the bug."""
    sightings = [sighting for sighting in statistics.in_order() if not bug.is_shown_by(sighting.fail.signature)]
    frequent = sorted(sightings, key=lambda sighting: -sighting.count)[:MAX_OTHER_SIGNATURES]
    return tuple(str(sighting.fail.signature) for sighting in frequent)
