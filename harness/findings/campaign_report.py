"""The report of a campaign: what a search found, from the options and the statistics of the search."""

from collections.abc import Iterable
from dataclasses import replace

from harness.documents.campaign import CampaignReport, RowCount, SizeCount, VerdictCount
from harness.documents.op_checks import LONG, OVERSIZED, OpChecks, unchecked, untried
from harness.findings.known_issues import NO_ISSUES, KnownIssues
from harness.findings.versions import versions
from harness.model.device import DeviceProfile
from harness.model.finding import Finding
from harness.model.op import Op
from harness.model.verdict import Outcome
from harness.oracles import registry
from harness.oracles.completes import Completes
from harness.search.campaign_statistics import CampaignStatistics
from harness.search.long_cases import why_never_long
from harness.search.op_statistics import OpStatistics
from harness.search.options import Options
from harness.search.oversized import why_never_oversized
from harness.search.strategies import scouts

REASONS = 5
"""How many reasons a row of an op on a device keeps."""


def report_of(
    options: Options,
    statistics: CampaignStatistics,
    findings: Iterable[Finding],
    *,
    interrupted: bool,
    issues: KnownIssues = NO_ISSUES,
) -> CampaignReport:
    """Return the report of a search, which may have been interrupted."""
    report = CampaignReport(
        findings=tuple(findings),
        cases=statistics.cases,
        passed=statistics.passed,
        failed=statistics.failed,
        abstained=statistics.abstained,
        abstain_reasons=dict((+statistics.reasons).most_common()),
        seconds=round(statistics.seconds, 3),
        seed=options.seed,
        devices=tuple(map(str, options.devices)),
        versions=versions(),
        libraries=options.libraries,
        interrupted=interrupted,
        kernels=tuple(sorted(statistics.kernels)),
        cut_off=tuple(map(str, statistics.cut_off)),
        suite_errors=tuple(statistics.suite_errors),
        builds=statistics.builds,
        compiled_builds=statistics.compiled,
        accepted_reports=dict(statistics.accepted.most_common()),
        verdicts=tuple(
            VerdictCount(**cell._asdict(), cases=count) for cell, count in sorted(statistics.verdicts.items()) if count
        ),
        tested_sizes=tuple(
            SizeCount(**point._asdict(), cases=count) for point, count in sorted(statistics.area.items()) if count
        ),
        row_checks=tuple(
            RowCount(op=op, device=device, kernel=cell.kernel, config=cell.config, bits=cell.bits, cases=cases)
            for (op, device), counts in sorted(statistics.ops.items())
            for cell, cases in sorted(counts.row_cells.items())
        ),
        op_checks=_op_checks(options, statistics),
        promising=statistics.promising.rows(),
        dropped_cases=statistics.dropped_cases,
        avoided=statistics.avoided,
        set_aside=statistics.set_aside,
    )
    return concluded(report, issues)


def concluded(report: CampaignReport, issues: KnownIssues) -> CampaignReport:
    """Return the report with what follows from its findings and its rows."""
    rows = report.op_checks
    return replace(
        report,
        known_findings=issues.among(report.findings),
        notices=issues.notices(report.findings, report.kernels, {row.op for row in rows}),
        unchecked=unchecked(rows),
        untried=untried(rows),
    )


def _op_checks(options: Options, statistics: CampaignStatistics) -> tuple[OpChecks, ...]:
    """Return a row for each op on each device."""
    # As in `registry.outcome`: to complete is enough only where nothing else is checked.
    asked = {*options.oracles} - {Completes.name}
    judges_oversized = not asked or any(registry.traits_of(oracle).judges_oversized for oracle in asked)
    return tuple(
        _tested(op, device, statistics, judges_oversized=judges_oversized)
        for op in options.plan.ops
        for device in options.plan.devices
    )


def _tested(op: Op, device: DeviceProfile, statistics: CampaignStatistics, *, judges_oversized: bool) -> OpChecks:
    counts = statistics.ops.get((op.id, device.slug), OpStatistics())
    never_long = why_never_long(op, scouts(op, device))
    never_oversized = why_never_oversized(op) if judges_oversized else ""
    impossible = {LONG: never_long, OVERSIZED: never_oversized}
    return OpChecks(
        op=op.id,
        device=device.slug,
        passed=counts.outcomes[Outcome.PASS],
        failed=counts.outcomes[Outcome.FAIL],
        abstained=counts.outcomes[Outcome.ABSTAIN],
        abstain_reasons=dict((+counts.reasons).most_common(REASONS)),
        oversized=counts.oversized,
        may_be_oversized=judges_oversized and not never_oversized,
        long=counts.long,
        may_be_long=not never_long,
        impossible=tuple(f"{kind}: {reason}" for kind, reason in impossible.items() if reason),
        compared=counts.compared,
        undefined=counts.undefined,
        second_runs=dict(sorted(counts.second_runs.items())),
        eager=dict(sorted(counts.eager.items())),
        picked=dict(sorted(counts.picked.items())),
        builds=len(counts.builds),
        compiled_builds=len(counts.builds & statistics.known_builds),
    )
