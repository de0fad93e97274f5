"""The comparison of a report with earlier ones: findings that are new, back, still there or gone."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from harness.documents.campaign import CampaignReport
from harness.model.finding import Finding
from harness.model.verdict import Severity, Signature
from harness.reports.contents import ReportContents, ReportedCampaign


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One report of the history."""

    name: str
    signatures: frozenset[Signature]
    new: tuple[Signature, ...]
    """In no report before, as a finding or as its symptom; for the first report, all."""
    back: tuple[Signature, ...]
    """Gone in an earlier report, and here again."""
    still: tuple[Signature, ...]
    gone: tuple[Signature, ...]
    """In the report before and not in this one, not even as a symptom, though the search looked for them."""
    not_looked_at: tuple[Signature, ...]
    """In the report before, and this search ran neither the kernel nor the op on the finding's device."""
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
    before: Mapping[Signature, Finding] = {}
    all_before, ever = frozenset[Signature](), frozenset[Signature]()
    here = ReportedCampaign(
        name="this report",
        report=replace(contents.together, findings=tuple(bug.finding for bug in contents.bugs)),
    )
    for campaign in (*contents.earlier, here):
        report = campaign.report
        absent = {
            signature: finding for signature, finding in before.items() if signature not in campaign.all_signatures
        }
        gone = frozenset(signature for signature, finding in absent.items() if looked_for(finding, report))
        yield Stage(
            name=campaign.name,
            signatures=campaign.signatures,
            new=_listed(campaign.signatures - all_before - ever),
            back=_listed((campaign.signatures & ever) - all_before),
            still=_listed(campaign.signatures & all_before),
            gone=_listed(gone),
            not_looked_at=_listed(absent.keys() - gone),
            cases=report.cases,
            seconds=report.seconds,
        )
        before = {finding.fail.signature: finding for finding in report.findings}
        before |= {signature: finding for signature, finding in absent.items() if signature not in gone}
        all_before = campaign.all_signatures | before.keys()
        ever |= all_before


def looked_for(finding: Finding, report: CampaignReport) -> bool:
    """Return True if a search ran what showed the finding: its kernel or its op, on its device."""
    signature, device = finding.fail.signature, finding.case.device.slug
    rows = [row for row in report.op_checks if row.checked and row.device == device]
    if signature.kernel:  # a report of `harness run` has no ops
        return signature.kernel in report.kernels and (bool(rows) or not report.op_checks)
    return any(f"/{row.op}".endswith(f"/{signature.op}") for row in rows)


def _listed(signatures: Iterable[Signature]) -> tuple[Signature, ...]:
    return tuple(sorted(signatures, key=lambda signature: (signature.severity, str(signature))))
