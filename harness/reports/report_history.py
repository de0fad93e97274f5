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
    """Not in the report before, as a finding or as its symptom; for the first report, all."""
    still: tuple[Signature, ...]
    gone: tuple[Signature, ...]
    """In the report before and not in this one, not even as a symptom: fixed, or not found this time."""
    cases: int
    seconds: float

    @property
    def errors(self) -> int:
        return sum(signature.severity is Severity.ERROR for signature in self.signatures)

    @property
    def rate(self) -> float:
        """Cases per second; 0 without a campaign."""
        return self.cases / self.seconds if self.seconds else 0.0


def stages(contents: ReportContents) -> tuple[Stage, ...]:
    """Return the earlier reports and this one, the oldest first; none if there is no earlier one."""
    return tuple(_stages(contents)) if contents.earlier else ()


def _stages(contents: ReportContents) -> Iterator[Stage]:
    before, all_before = frozenset[Signature](), frozenset[Signature]()
    rows = [
        (campaign.name, campaign.signatures, campaign.all_signatures, campaign.report.cases, campaign.report.seconds)
        for campaign in contents.earlier
    ]
    here = frozenset(bug.finding.fail.signature for bug in contents.bugs)
    all_here = frozenset(signature for bug in contents.bugs for signature in bug.finding.signatures)
    now = ("this report", here, all_here, contents.together.cases, contents.together.seconds)
    for name, signatures, all_signatures, cases, seconds in (*rows, now):
        yield Stage(
            name=name,
            signatures=signatures,
            new=_listed(signatures - all_before),
            still=_listed(signatures & all_before),
            gone=_listed(before - all_signatures),
            cases=cases,
            seconds=seconds,
        )
        before, all_before = signatures, all_signatures


def _listed(signatures: frozenset[Signature]) -> tuple[Signature, ...]:
    return tuple(sorted(signatures, key=lambda signature: (signature.severity, str(signature))))
