"""One bug: the ordinary search on the last bad release until the bug is seen, then the same search on the first fixed.

Both searches draw from the same seed.  The second has as many cases as the first needed, and no fewer than a floor.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from harness.corpus.bugs import HistoricalBug
from harness.errors import LibraryError, MissingPart, SuiteError, UsageError
from harness.model.case import Case
from harness.model.finding import Finding
from harness.model.verdict import Fail
from harness.search.campaign_statistics import CampaignStatistics, Trial
from harness.search.options import TIME_LIMIT_S, VIRTUAL, Options, load_devices, load_ops
from harness.search.plan import CaseBudget
from harness.search.session import Session
from harness.search.triage import Triage

FLOOR = 300
"""So many cases, at least, must stay silent on the fixed release."""
NAMED = 3
"""So many other signatures are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How far a search for one bug may go."""

    cases: int
    seconds: float
    processes: int
    seed: int
    time_limit_s: float = TIME_LIMIT_S
    engine: str = VIRTUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The bug, seen and confirmed alone in a fresh process."""

    signature: str
    where: str
    """The source line, where one is known."""
    cases: int
    """Until it was seen, counted with the case that showed it."""
    seconds: float
    """Likewise, from the start of the workers on."""
    smallest: Case
    finding: str
    """The id under which it can be replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What came of the search on one release."""

    release: tuple[str, ...]
    cases: int
    judged: int
    """Those that said something."""
    seconds: float
    out_of_time: bool = False
    """It ended before it had all its cases."""
    found: Found | None = None
    others: tuple[str, ...] = ()
    """Signatures of failures that are not the bug, the most frequent first."""
    obstacle: str = ""
    """Why nothing could be searched, where nothing could."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BugRecord:
    """One bug and what came of looking for it."""

    bug: HistoricalBug
    budget: Budget
    bad: SearchResult | None = None
    """None where it is not searched for."""
    fixed: SearchResult | None = None
    """None where the bug was not found: its silence would say nothing."""

    @property
    def is_kept(self) -> bool:
        """Whether it was found in the one release, and the other stays silent in at least as many cases."""
        return (
            self.bad is not None
            and self.bad.found is not None
            and self.fixed is not None
            and self.fixed.found is None
            and self.fixed.judged > 0
            and not (self.fixed.out_of_time and self.fixed.cases < self.bad.found.cases)
        )

    @property
    def was_searched(self) -> bool:
        """Whether any case could be judged."""
        return self.bad is not None and self.bad.judged > 0


Tell = Callable[[str], object]


def hunt(bug: HistoricalBug, budget: Budget, tell: Tell, keep: Callable[[Finding], object]) -> BugRecord:
    """Look for the bug; `tell` hears how it goes, `keep` gets the finding.  Obstacles on the way are values."""
    if bug.not_searched:
        return BugRecord(bug=bug, budget=budget)
    bad = _search(bug, bug.release(bug.last_bad), budget, tell, keep)
    if bad.found is None:
        return BugRecord(bug=bug, budget=budget, bad=bad)
    enough = replace(budget, cases=max(min(FLOOR, budget.cases), bad.found.cases))
    fixed = _search(bug, bug.release(bug.first_fixed), enough, tell, keep)
    return BugRecord(bug=bug, budget=budget, bad=bad, fixed=fixed)


def _search(
    bug: HistoricalBug, release: tuple[str, ...], budget: Budget, tell: Tell, keep: Callable[[Finding], object]
) -> SearchResult:
    try:
        options = Options(
            suites=(bug.suite,),
            ops=load_ops((bug.suite,), bug.ops),
            devices=load_devices(bug.device, None),
            budget=CaseBudget(cases=budget.cases),
            seed=budget.seed,
            processes=budget.processes,
            libraries=release,
            time_limit_s=budget.time_limit_s,
            engine=budget.engine,
        )
        with Session(options) as session:
            seeker = _Seeker(bug, session, budget.seconds, tell)
            tally = seeker.campaign.run()
            found = seeker.described(keep)
    except (LibraryError, MissingPart, SuiteError, UsageError) as error:
        return SearchResult(release=release, cases=0, judged=0, seconds=0.0, obstacle=str(error))
    return SearchResult(
        release=release,
        cases=tally.cases,
        judged=tally.judged,
        seconds=round(tally.seconds, 1),
        out_of_time=seeker.out_of_time,
        found=found,
        others=_others(bug, tally),
    )


class _Seeker:
    """Watches one search: ends it at the first confirmed sighting of the bug, or when its time is over."""

    def __init__(self, bug: HistoricalBug, session: Session, seconds: float, tell: Tell) -> None:
        self._bug = bug
        self._session = session
        self._seconds = seconds
        self._begun = time.monotonic()
        self._tell = tell
        self.campaign = session.campaign(session.options.plan, self)
        self._sighted: tuple[Fail, int, float] | None = None
        self.out_of_time = False
        self._triage = Triage(
            runner=session.pool,
            judge=session.judge,
            libraries=session.options.libraries,
            trying=lambda _: None,
        )

    def tick(self, tally: CampaignStatistics, trying: Case | None) -> None:
        """End the search when its time is over."""
        del trying
        self._tell(f"{self._bug.id}: {tally.cases} cases with {', '.join(self._session.options.libraries)}")
        if time.monotonic() - self._begun >= self._seconds:
            self.out_of_time = True
            self.campaign.stop()

    def sighted(self, fail: Fail, trial: Trial) -> None:
        """End the search if this is the bug and repeats."""
        if not self._bug.is_shown_by(fail.signature):
            return
        seconds = time.monotonic() - self._begun
        if self._triage.repeats(fail, trial):
            self._sighted = (fail, self.campaign.tally.cases, seconds)
            self.campaign.stop()

    def shrinking(self, fail: Fail, number: int, total: int) -> None:
        """Only the bug is made small."""

    def trying(self, case: Case) -> None:
        """Told by `tick` often enough."""

    def described(self, keep: Callable[[Finding], object]) -> Found | None:
        """What was found, made small; None if nothing was."""
        if self._sighted is None:
            return None
        fail, cases, seconds = self._sighted
        self._tell(f"{self._bug.id}: making {fail.signature} small")
        sighting = self.campaign.tally.sightings[fail.signature]
        finding = self._triage.finding(sighting, self._session.options.limits)
        keep(finding)
        return Found(
            signature=str(fail.signature),
            where=str(finding.fail.source or ""),
            cases=cases,
            seconds=round(seconds, 1),
            smallest=finding.case,
            finding=finding.id,
        )


def _others(bug: HistoricalBug, tally: CampaignStatistics) -> tuple[str, ...]:
    """Failures that are not the bug."""
    others = [one for one in tally.in_order() if not bug.is_shown_by(one.fail.signature)]
    return tuple(str(one.fail.signature) for one in sorted(others, key=lambda one: -one.count)[:NAMED])
