"""The report of a campaign: what a search found, from the options and the statistics of the search."""

from collections.abc import Iterable

from harness.documents.campaign import CampaignReport, SizeCount, VerdictCount
from harness.findings.known_issues import NO_ISSUES, KnownIssues
from harness.findings.versions import versions
from harness.model.finding import Finding
from harness.search.campaign_statistics import CampaignStatistics
from harness.search.options import Options


def report_of(
    options: Options,
    statistics: CampaignStatistics,
    findings: Iterable[Finding],
    *,
    interrupted: bool,
    issues: KnownIssues = NO_ISSUES,
) -> CampaignReport:
    """Return the report of a search, which may have been interrupted."""
    found = tuple(findings)
    ops = [op.id for op in options.plan.ops]
    return CampaignReport(
        findings=found,
        cases=statistics.cases,
        passed=statistics.passed,
        failed=statistics.failed,
        abstained=statistics.abstained,
        abstain_reasons=dict(statistics.reasons.most_common()),
        seconds=round(statistics.seconds, 3),
        seed=options.seed,
        devices=tuple(map(str, options.devices)),
        versions=versions(),
        libraries=options.libraries,
        interrupted=interrupted,
        cut_off=tuple(map(str, statistics.cut_off)),
        builds=statistics.builds,
        compiled_builds=statistics.compiled,
        accepted_reports=dict(statistics.accepted.most_common()),
        known_findings=issues.among(found),
        notices=issues.notices(found, statistics.kernels, ops),
        verdicts=tuple(
            VerdictCount(op=cell.op, device=cell.device, oracle=cell.oracle, outcome=cell.outcome, cases=count)
            for cell, count in sorted(statistics.verdicts.items())
        ),
        tested_sizes=tuple(
            SizeCount(
                op=point.op,
                dim=point.dim,
                size=point.size,
                sm_count=point.sm_count,
                outcome=point.outcome,
                cases=count,
            )
            for point, count in sorted(statistics.area.items())
        ),
    )
