"""Campaign statistics: counts of cases and verdicts, and one sighting for each signature."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from harness.model.avoided import AvoidedDraws, SetAsideOp
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.finding import FirstSeen
from harness.model.op import Op
from harness.model.verdict import Abstain, Fail, Outcome, Pass, Severity, Signature, Verdict
from harness.oracles import registry
from harness.search.judge import Examination
from harness.search.line_coverage import LineCoverage
from harness.search.listed_configs import labels
from harness.search.op_statistics import OpStatistics
from harness.search.promising_cases import PromisingCases
from harness.search.sort_key import SortKey
from harness.search.strategies import Batch

WEIGHTIEST_FIRST = (Outcome.FAIL, Outcome.PASS, Outcome.ABSTAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One case of a campaign, and how the campaign chose it."""

    number: int
    """Its place in the campaign, equal for equal seeds.  A former paired run has the number of its original case."""
    op: Op
    case: Case
    batch: Batch | None
    """The batch that it was drawn from; None if it was not drawn."""
    home_sm_count: int
    """The device's own SM count."""
    before: tuple[Case, ...] = ()
    """The last cases that began on the same device before it: its process may have run any of them."""
    was_paired_run: bool = False
    """True if a paired run broke off, and so runs again as a case of its own."""

    @property
    def order_key(self) -> tuple[bool, int, str]:
        """A key that orders trials, equal for equal seeds in whatever order runs come back; no two trials share one.

        Former paired runs come last, by digest.  Timing decides which of two cases first requested the paired run, so
        their number means nothing.
        """
        return (True, 0, self.op.seed_digest(self.case)) if self.was_paired_run else (False, self.number, "")


class VerdictCell(NamedTuple):
    """An outcome of one oracle for one op on one device."""

    op: str
    device: str
    """The slug."""
    oracle: str
    outcome: Outcome


class PlanePoint(NamedTuple):
    """The place of a case in the plane of sizes and SM counts."""

    op: str
    dim: str
    """`T`, or else the op's first."""
    size: int
    sm_count: int
    outcome: Outcome


@dataclass(slots=True, kw_only=True)
class Sighting:
    """All failures of one signature."""

    fail: Fail
    """The failure that `first` showed."""
    first: Trial
    seconds: float = field(default=0.0, compare=False)
    """Since the search began, until the first sighting was judged.  It varies from run to run."""
    simplest: Trial
    """The simplest of the cases in which the number was furthest off, by `Fail.extent`."""
    simplest_key: SortKey
    extent: int = 0
    """The largest `Fail.extent`; 0 if there is none."""
    count: int = 1
    cases: dict[str, Case] = field(default_factory=dict[str, Case])
    """Every case that showed the signature, by digest."""
    rule: str = ""
    """As `Finding.rule`; known when the campaign ends."""

    def __post_init__(self) -> None:
        self.cases.setdefault(self.first.case.digest, self.first.case)

    @property
    def first_seen(self) -> FirstSeen:
        return FirstSeen(case_number=self.first.number + 1, seconds=round(self.seconds, 1))

    def add(self, fail: Fail, trial: Trial, key: SortKey) -> None:
        """Add a failure.  The order of calls does not affect the result."""
        self.count += 1
        self.cases.setdefault(trial.case.digest, trial.case)
        if trial.order_key < self.first.order_key:
            self.first, self.fail = trial, fail
        extent = fail.extent or 0
        if (-extent, key, trial.order_key) < (-self.extent, self.simplest_key, self.simplest.order_key):
            self.simplest, self.simplest_key, self.extent = trial, key, extent


@dataclass(slots=True, kw_only=True)
class CampaignStatistics:
    """All counts of one campaign."""

    cases: int = 0
    passed: int = 0
    failed: int = 0
    abstained: int = 0
    reasons: Counter[str] = field(default_factory=Counter[str])
    """How many cases abstained for each reason."""
    sightings: dict[Signature, Sighting] = field(default_factory=dict[Signature, Sighting])
    seconds: float = 0.0
    cut_off: list[Case] = field(default_factory=list[Case])
    """Cases that still ran when time was up.  They are not among `cases`."""
    suite_errors: list[str] = field(default_factory=list[str])
    """A message for each op whose results never have the structure of its definition's, and for what suites raised."""
    builds: int = 0
    """Distinct compiled kernels that were launched; constants, config and architecture distinguish them."""
    compiled: int = 0
    """How many of them the whole compiler pipeline has compiled."""
    accepted: Counter[str] = field(default_factory=Counter[str])
    """Sanitizer reports that the user's file accepts, by tool, kernel and reason."""
    kernels: set[str] = field(default_factory=set[str])
    """Names of all kernels that were launched."""
    verdicts: Counter[VerdictCell] = field(default_factory=Counter[VerdictCell])
    """How many cases each oracle passed, failed and abstained on, by op and device."""
    area: Counter[PlanePoint] = field(default_factory=Counter[PlanePoint])
    """How many cases ran at each point."""
    ops: dict[tuple[str, str], OpStatistics] = field(default_factory=dict[tuple[str, str], OpStatistics])
    """By op and the slug of its device."""
    known_builds: frozenset[str] = frozenset()
    """The builds whose resources are known; set when the campaign ends."""
    line_coverage: LineCoverage = field(default_factory=LineCoverage)
    """Paired runs included."""
    promising: PromisingCases = field(default_factory=PromisingCases)
    dropped_cases: tuple[str, ...] = ()
    """As `CampaignReport.dropped_cases`."""
    avoided: tuple[AvoidedDraws, ...] = ()
    set_aside: tuple[SetAsideOp, ...] = ()

    @property
    def checked(self) -> int:
        """Cases with another outcome than ABSTAIN."""
        return self.passed + self.failed

    def list_configs(self, ops: Iterable[Op], devices: Iterable[DeviceProfile]) -> None:
        """Note the configs that host code of the ops may pick, of which no case has checked one yet."""
        for op, device in product(ops, devices):
            if listed := labels(op, device):
                self.ops.setdefault((op.id, device.slug), OpStatistics()).picked.update(dict.fromkeys(listed, 0))

    def count(self, examined: Examination) -> None:
        """Count one case with its verdicts."""
        self.cases += 1
        self._add_outcome(examined, 1)
        self._of(examined).count(examined)
        self.kernels.update(launch.kernel for launch in examined.run.launches)
        self.verdicts.update(_cells(examined))
        for watched in filter(None, (examined.run.sanitizer, examined.run.instrumented)):
            for record in watched.records:
                if record.accepted:
                    self.accepted[f"{watched.name}: {record.at.kernel}: {record.accepted}"] += record.count

    def recount(self, before: Examination, after: Examination) -> None:
        """Count one case with other verdicts than it was counted with."""
        self.verdicts.subtract(_cells(before))
        self.verdicts.update(_cells(after))
        self._add_outcome(before, -1)
        self._of(before).add_outcome(before, -1)
        self._add_outcome(after, 1)
        self._of(after).add_outcome(after, 1)

    def _add_outcome(self, examined: Examination, cases: int) -> None:
        case, outcome = examined.run.case, examined.outcome
        rows = next(iter(case.dims.items()), ("", 1)) if "T" not in case.dims else ("T", case.dims["T"])
        self.area[PlanePoint(case.op, *rows, case.device.sm_count, outcome)] += cases
        match outcome:
            case Outcome.PASS:
                self.passed += cases
            case Outcome.FAIL:
                self.failed += cases
            case Outcome.ABSTAIN:
                self.abstained += cases
                self.reasons.update(dict.fromkeys(registry.reasons(examined.verdicts), cases))

    def _of(self, examined: Examination) -> OpStatistics:
        case = examined.run.case
        return self.ops.setdefault((case.op, case.device.slug), OpStatistics())

    def sight(self, fail: Fail, trial: Trial, key: SortKey) -> bool:
        """Record a failure; return True if its signature is new."""
        known = self.sightings.get(fail.signature)
        if known is None:
            self.sightings[fail.signature] = Sighting(
                fail=fail,
                first=trial,
                simplest=trial,
                simplest_key=key,
                extent=fail.extent or 0,
                seconds=self.seconds,
            )
            return True
        known.add(fail, trial, key)
        return False

    def in_order(self) -> list[Sighting]:
        """Return the sightings: errors before warnings, then in the order of their first cases."""

        def key(sighting: Sighting) -> tuple[bool, tuple[bool, int, str], str]:
            signature = sighting.fail.signature
            return signature.severity is Severity.WARNING, sighting.first.order_key, str(signature)

        return sorted(self.sightings.values(), key=key)


def _cells(examined: Examination) -> list[VerdictCell]:
    """Return one cell for each oracle: a failure outweighs what else the oracle says, and a pass an abstention."""
    outcomes_by_oracle: dict[str, set[Outcome]] = {}
    for verdict in examined.verdicts:
        outcomes_by_oracle.setdefault(verdict.oracle, set()).add(outcome_of(verdict))
    case = examined.run.case
    return [
        VerdictCell(
            case.op, case.device.slug, oracle, next(outcome for outcome in WEIGHTIEST_FIRST if outcome in outcomes)
        )
        for oracle, outcomes in outcomes_by_oracle.items()
    ]


def outcome_of(verdict: Verdict) -> Outcome:
    match verdict:
        case Pass():
            return Outcome.PASS
        case Fail():
            return Outcome.FAIL
        case Abstain():
            return Outcome.ABSTAIN
