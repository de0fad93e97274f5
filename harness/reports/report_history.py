"""How a report compares with earlier ones: which findings are new, still there or gone."""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.model.verdict import Severity, Signature
from harness.reports.contents import Gathered


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One report in the row of them."""

    name: str
    signatures: frozenset[Signature]
    new: tuple[Signature, ...]
    """Not in the report before; of the first, all."""
    still: tuple[Signature, ...]
    gone: tuple[Signature, ...]
    """In the report before, and not in this one: mended, or not met."""
    cases: int
    seconds: float

    @property
    def errors(self) -> int:
        """Findings that are no warnings."""
        return sum(one.severity is Severity.ERROR for one in self.signatures)

    @property
    def rate(self) -> float:
        """Cases a second; 0 where no search is known."""
        return self.cases / self.seconds if self.seconds else 0.0


def stages(gathered: Gathered) -> tuple[Stage, ...]:
    """The earlier reports and this one, the oldest first; none where there is nothing to compare with."""
    return tuple(_stages(gathered)) if gathered.earlier else ()


def _stages(gathered: Gathered) -> Iterator[Stage]:
    before = frozenset[Signature]()
    rows = [(one.name, one.signatures, one.report.cases, one.report.seconds) for one in gathered.earlier]
    here = frozenset(bug.finding.fail.signature for bug in gathered.bugs)
    for name, signatures, cases, seconds in (*rows, ("this report", here, gathered.cases, gathered.seconds)):
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
