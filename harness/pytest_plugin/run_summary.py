"""What of a run of pytest went to real GPUs, what to the virtual one, what could not be judged, and why."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from harness.findings.campaign_report import Report
from harness.search.options import VIRTUAL
from harness.search.session import Session

PLACE, CASES, UNJUDGED, WHY = "ran_on", "cases", "not_judged", "why_there"
"""Names of a test's properties; pytest-xdist brings them from its workers, and JUnit XML keeps them."""
REASONS = 5
Property = tuple[str, object]


def properties(session: Session, report: Report, why_virtual: str) -> list[tuple[str, str]]:
    """Where a test's cases ran and why there, how many there were, and why some were not judged."""
    unjudged = [(UNJUDGED, f"{count} {reason}") for reason, count in report.reasons.items()]
    why = [(WHY, why_virtual)] if why_virtual else []
    return [*place_and_cases(session, report.cases), *why, *unjudged]


def place_and_cases(session: Session, cases: int) -> list[tuple[str, str]]:
    """Where a test's cases ran, and how many there were."""
    return [(PLACE, place_of(session)), (CASES, str(cases))]


def place_of(session: Session) -> str:
    """`NVIDIA H200 (132 SMs)`, `the virtual GPU`, or the name of another engine."""
    if session.gpus:
        return ", ".join(dict.fromkeys(f"{gpu.name} ({gpu.sm_count} SMs)" for gpu in session.gpus))
    return "the virtual GPU" if session.options.engine == VIRTUAL else session.options.engine


@dataclass(slots=True)
class Place:
    """What ran in one place."""

    tests: int = 0
    cases: int = 0
    unjudged: Counter[str] = field(default_factory=Counter[str])
    why: str = ""

    def add(self, told: Iterable[Property]) -> None:
        """One more test, with what it told of itself."""
        self.tests += 1
        for name, value in told:
            if name == CASES:
                self.cases += int(str(value))
            elif name == WHY:
                self.why = str(value)
            elif name == UNJUDGED:
                count, _, reason = str(value).partition(" ")
                self.unjudged[reason] += int(count)


def lines(tests: Iterable[Iterable[Property]], skipped: Iterable[str]) -> Iterator[str]:
    """The summary, of the properties of all tests and the reasons of those that were skipped; nothing of no test."""
    places: dict[str, Place] = {}
    for named in tests:
        told = list(named)
        place = next((str(value) for name, value in told if name == PLACE), None)
        if place is not None:
            places.setdefault(place, Place()).add(told)
    for name, place in sorted(places.items()):
        yield f"on {name}: {place.tests} tests, {place.cases} cases" + (f" ({place.why})" if place.why else "")
        for reason, count in place.unjudged.most_common(REASONS):
            yield f"  {count} not judged: {reason}"
    if places:
        for reason, count in Counter(skipped).most_common(REASONS):
            yield f"skipped: {count} tests: {reason}"
