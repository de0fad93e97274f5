"""What a campaign has seen so far: counts, and one sighting for each signature."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.model.case import Case
from harness.model.op import Op
from harness.model.verdict import Abstain, Fail, Outcome, Pass, Severity, Signature, Verdict
from harness.oracles import registry
from harness.search.judge import Examination
from harness.search.sort_key import Plainness
from harness.search.strategies import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One case of a campaign, with where it came from."""

    number: int
    """Its place in the campaign: the same for the same seed.  That of a case beside which it ran, where it followed."""
    op: Op
    case: Case
    batch: Batch | None
    """What it was drawn from; None for a scouting case."""
    home_sm_count: int
    """The SM count that counts as the device's own."""
    before: tuple[Case, ...] = ()
    """The last cases that began on the same device before it: its process may have run any of them."""
    followed: bool = False
    """It broke off as a companion, and so is a case of its own."""

    @property
    def turn(self) -> tuple[bool, int, str]:
        """What orders trials, and tells any two apart: the same for the same seed, in whatever order runs come back.

        Those that followed come last, by their digests: which of two cases first wanted one is a matter of luck.
        """
        return (True, 0, self.case.digest) if self.followed else (False, self.number, "")


class Cell(NamedTuple):
    """One op on one device as one oracle judged it."""

    op: str
    device: str
    """The slug."""
    oracle: str
    outcome: Outcome


class PlanePoint(NamedTuple):
    """Where in the plane of sizes and SM counts a case lies."""

    op: str
    dim: str
    """`T`, or else the op's first."""
    size: int
    sm_count: int
    outcome: Outcome


@dataclass(slots=True, kw_only=True)
class Sighting:
    """One signature: how often it was seen, first where, and in which case it is plainest."""

    fail: Fail
    first: Trial
    plainest: Trial
    place: Plainness
    count: int = 1
    cases: dict[str, Case] = field(default_factory=dict[str, Case])
    """Every case that showed it, by digest."""

    def __post_init__(self) -> None:
        self.cases.setdefault(self.first.case.digest, self.first.case)

    def add(self, fail: Fail, trial: Trial, place: Plainness) -> None:
        """Another case that shows it.  The order of calls makes no difference to what is kept."""
        self.count += 1
        self.cases.setdefault(trial.case.digest, trial.case)
        if trial.turn < self.first.turn:
            self.first, self.fail = trial, fail
        if (place, trial.turn) < (self.place, self.plainest.turn):
            self.plainest, self.place = trial, place


@dataclass(slots=True, kw_only=True)
class CampaignStatistics:
    """All counts of one campaign."""

    cases: int = 0
    passed: int = 0
    failed: int = 0
    abstained: int = 0
    reasons: Counter[str] = field(default_factory=Counter[str])
    """Why cases abstained, and how many."""
    sightings: dict[Signature, Sighting] = field(default_factory=dict[Signature, Sighting])
    seconds: float = 0.0
    builds: int = 0
    """Distinct kernels that were launched: constants, config and architecture included."""
    compiled: int = 0
    """Those of them that the whole compiler pipeline has seen."""
    accepted: Counter[str] = field(default_factory=Counter[str])
    """Reports of compute-sanitizer that the user's file accepts, by tool, kernel and reason."""
    kernels: set[str] = field(default_factory=set[str])
    """Names of all that were launched."""
    verdicts: Counter[Cell] = field(default_factory=Counter[Cell])
    """How many cases of an op on a device each oracle passed, failed and abstained on."""
    area: Counter[PlanePoint] = field(default_factory=Counter[PlanePoint])
    """How many cases were tried where."""

    @property
    def judged(self) -> int:
        """Cases that say something."""
        return self.passed + self.failed

    def count(self, examined: Examination) -> None:
        """Count one case."""
        self.cases += 1
        self._locate(examined)
        for watched in filter(None, (examined.run.sanitizer, examined.run.instrumented)):
            for record in watched.records:
                if record.accepted:
                    self.accepted[f"{watched.name}: {record.at.kernel}: {record.accepted}"] += record.count
        match examined.outcome:
            case Outcome.PASS:
                self.passed += 1
            case Outcome.FAIL:
                self.failed += 1
            case Outcome.ABSTAIN:
                self.abstained += 1
                self.reasons.update(registry.reasons(examined.verdicts))

    def _locate(self, examined: Examination) -> None:
        case = examined.run.case
        self.kernels.update(launch.kernel for launch in examined.run.launches)
        self.verdicts.update(
            {Cell(case.op, case.device.slug, verdict.oracle, outcome_of(verdict)) for verdict in examined.verdicts}
        )
        rows = next(iter(case.dims.items()), ("", 1)) if "T" not in case.dims else ("T", case.dims["T"])
        self.area[PlanePoint(case.op, *rows, case.device.sm_count, examined.outcome)] += 1

    def sight(self, fail: Fail, trial: Trial, place: Plainness) -> bool:
        """Record a failure; true if its signature is new."""
        known = self.sightings.get(fail.signature)
        if known is None:
            self.sightings[fail.signature] = Sighting(fail=fail, first=trial, plainest=trial, place=place)
            return True
        known.add(fail, trial, place)
        return False

    def in_order(self) -> list[Sighting]:
        """The sightings: errors before warnings, then in the order of their first cases."""

        def place(sighting: Sighting) -> tuple[bool, tuple[bool, int, str], str]:
            signature = sighting.fail.signature
            return signature.severity is Severity.WARNING, sighting.first.turn, str(signature)

        return sorted(self.sightings.values(), key=place)


def outcome_of(verdict: Verdict) -> Outcome:
    """The verdict without its reasons."""
    match verdict:
        case Pass():
            return Outcome.PASS
        case Fail():
            return Outcome.FAIL
        case Abstain():
            return Outcome.ABSTAIN
