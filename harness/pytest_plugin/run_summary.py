"""The summary of a pytest run: which cases ran on which GPU, which could not be checked, and why."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from harness.documents.campaign import CampaignReport
from harness.pytest_plugin.plugin_options import RAN_ON
from harness.reports.summary import named
from harness.search.session import Session
from harness.wording import counted

CASES, NOT_CHECKED, WHY, UNCHECKED, UNTRIED = "cases", "not_judged", "why_there", "unchecked", "untried"
"""More properties of a test.  pytest-xdist sends them from its workers, and JUnit XML keeps them."""
REASONS = 5
Property = tuple[str, object]


def properties(session: Session, report: CampaignReport, why_virtual: str) -> list[tuple[str, str]]:
    """Return the properties of a search: where its cases ran and why there, their number, and why some abstained."""
    not_checked = [(NOT_CHECKED, f"{count} {reason}") for reason, count in report.abstain_reasons.items()]
    why = [(WHY, why_virtual)] if why_virtual else []
    rows = {row.op: row for row in report.op_checks}
    unchecked = [
        (UNCHECKED, str(replace(target, device=target.device or rows[target.op].device))) for target in report.unchecked
    ]
    untried = [
        (UNTRIED, f"{kind}: {rows[op].name} on {rows[op].device}") for kind, ops in report.untried.items() for op in ops
    ]
    return [*place_and_cases(session, report.cases), *why, *not_checked, *unchecked, *untried]


def place_and_cases(session: Session, cases: int) -> list[tuple[str, str]]:
    return [(RAN_ON, place_of(session)), (CASES, str(cases))]


def place_of(session: Session) -> str:
    """Return `NVIDIA H200 (132 SMs)`, `the virtual GPU`, or the name of another engine."""
    if session.gpus:
        return ", ".join(dict.fromkeys(f"{gpu.name} ({counted(gpu.sm_count, 'SM')})" for gpu in session.gpus))
    return "the virtual GPU" if session.options.engine.is_virtual else str(session.options.engine)


@dataclass(slots=True)
class PlaceSummary:
    """The tests that ran in one place, added up."""

    tests: int = 0
    cases: int = 0
    not_checked: Counter[str] = field(default_factory=Counter[str])
    """Cases by reason."""
    why: str = ""
    unchecked: list[str] = field(default_factory=list[str])
    """Ops and devices of which no case could be checked."""
    untried: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Ops and devices that got none of a kind of check, by kind."""

    def add(self, test: Iterable[Property]) -> None:
        """Add one test, given by its properties."""
        self.tests += 1
        for name, value in test:
            if name == CASES:
                self.cases += int(str(value))
            elif name == WHY:
                self.why = str(value)
            elif name == NOT_CHECKED:
                count, _, reason = str(value).partition(" ")
                self.not_checked[reason] += int(count)
            elif name == UNCHECKED:
                self.unchecked.append(str(value))
            elif name == UNTRIED:
                kind, _, target = str(value).partition(": ")
                self.untried.setdefault(kind, []).append(target)


def lines(tests: Iterable[Iterable[Property]], skipped: Iterable[str]) -> Iterator[str]:
    """Return the lines of the summary, from the properties of all tests and the reasons of the skipped ones.

    There are none if no test searched anything.
    """
    places: dict[str, PlaceSummary] = {}
    for properties_of_test in tests:
        test = list(properties_of_test)
        place = next((str(value) for name, value in test if name == RAN_ON), None)
        if place is not None:
            places.setdefault(place, PlaceSummary()).add(test)
    for name, place in sorted(places.items()):
        why = f" ({place.why})" if place.why else ""
        yield f"on {name}: {counted(place.tests, 'test')}, {counted(place.cases, 'case')}{why}"
        for reason, count in place.not_checked.most_common(REASONS):
            yield f"  {count} not checked: {reason}"
        if rest := place.not_checked.most_common()[REASONS:]:
            yield f"  {sum(count for _, count in rest)} not checked for {counted(len(rest), 'more reason')}"
        yield from (f"  not tried: {kind}: {named(targets)}" for kind, targets in place.untried.items())
        yield from (f"  nothing checked: {target}" for target in place.unchecked)
    if places:
        for reason, count in Counter(skipped).most_common(REASONS):
            yield f"skipped: {counted(count, 'test')}: {reason}"
