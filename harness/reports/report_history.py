"""The comparison of a report with earlier ones: findings that are new, still there or gone."""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.model.verdict import Severity, Signature
from harness.reports.contents import ReportContents


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One report of the history."""

    name: str
    signatures: frozenset[Signature]
    new: tuple[Signature, ...]
    """Not in the report before; for the first report, all."""
    still: tuple[Signature, ...]
    gone: tuple[Signature, ...]
    """In the report before and not in this one: fixed, or not found this time."""
    cases: int
    seconds: float

    @property
    def errors(self) -> int:
        return sum(one.severity is Severity.ERROR for one in self.signatures)

    @property
    def rate(self) -> float:
        """Cases per second; 0 without a campaign."""
        return self.cases / self.seconds if self.seconds else 0.0


def stages(contents: ReportContents) -> tuple[Stage, ...]:
    """Return the earlier reports and this one, the oldest first; none if there is no earlier one."""
    return tuple(_stages(contents)) if contents.earlier else ()


def _stages(contents: ReportContents) -> Iterator[Stage]:
    before = frozenset[Signature]()
    rows = [(one.name, one.signatures, one.report.cases, one.report.seconds) for one in contents.earlier]
    here = frozenset(bug.finding.fail.signature for bug in contents.bugs)
    for name, signatures, cases, seconds in (*rows, ("this report", here, contents.cases, contents.seconds)):
        yield Stage(
            name=name,
            signatures=signatures,
            new=_listed(signatures - before),
            still=_listed(signatures & before),
            gone=_listed(before - signatures),
            cases=cases,
            seconds=seconds,
        )
        before = signatures


def _listed(signatures: frozenset[Signature]) -> tuple[Signature, ...]:
    return tuple(sorted(signatures, key=lambda one: (one.severity, str(one))))
