"""What a campaign hands back, and its JSON: one object that tools, `harness replay` and other machines can read."""

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.findings.known_issues import NO_ISSUES, Known, KnownIssues
from harness.findings.versions import versions
from harness.model.finding import Finding
from harness.model.picture import Picture, Pictures
from harness.model.verdict import Severity
from harness.search.campaign_statistics import CampaignStatistics, Cell, PlanePoint
from harness.search.options import Options
from harness.wire import to_json

FORMAT = "kernel-harness-findings/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that is worth keeping of one campaign."""

    findings: tuple[Finding, ...]
    cases: int
    passed: int
    failed: int
    abstained: int
    reasons: Mapping[str, int]
    """Why cases abstained, and how many."""
    seconds: float
    """Of the search, without confirming and shrinking."""
    seed: int
    devices: tuple[str, ...]
    versions: Mapping[str, str]
    """Of Python and of the distributions that decide results."""
    builds: int = 0
    """Distinct kernels that were launched: constants, config and architecture included."""
    compiled: int = 0
    """Those of them whose resources are known."""
    libraries: tuple[str, ...] = ()
    interrupted: bool = False
    verdicts: Mapping[Cell, int] = field(default_factory=dict[Cell, int])
    """How many cases of an op on a device each oracle passed, failed and abstained on."""
    area: Mapping[PlanePoint, int] = field(default_factory=dict[PlanePoint, int])
    """How many cases were tried where."""
    accepted: Mapping[str, int] = field(default_factory=dict[str, int])
    """Reports of compute-sanitizer that a file accepts, by tool, kernel and reason."""
    waiting: float | None = None
    """The share of time in which real GPUs waited for the compiler, 0 to 1; None where nothing was compiled ahead."""
    known: tuple[Known, ...] = ()
    """Findings that somebody has accepted for the time being."""
    notices: tuple[str, ...] = ()
    """What is wrong with the list of known issues."""

    @property
    def judged(self) -> int:
        """Cases that say something."""
        return self.passed + self.failed

    def bad(self, fail_on: Severity) -> tuple[Finding, ...]:
        """The findings that count as a failure: all that are not known, or the errors among them."""
        known = {one.finding for one in self.known}
        return tuple(finding for finding in self.findings if counts(finding, fail_on) and finding.id not in known)


def counts(finding: Finding, fail_on: Severity) -> bool:
    """Whether a finding makes a command or a test fail."""
    return fail_on is Severity.WARNING or finding.fail.signature.severity is Severity.ERROR


def report_of(
    options: Options,
    tally: CampaignStatistics,
    findings: Iterable[Finding],
    *,
    interrupted: bool,
    issues: KnownIssues = NO_ISSUES,
) -> Report:
    """The report of a search, as far as it came."""
    found = tuple(findings)
    ops = [op.id for op in options.plan.ops]
    return Report(
        findings=found,
        cases=tally.cases,
        passed=tally.passed,
        failed=tally.failed,
        abstained=tally.abstained,
        reasons=dict(tally.reasons.most_common()),
        seconds=tally.seconds,
        seed=options.seed,
        devices=tuple(map(str, options.devices)),
        versions=versions(),
        builds=tally.builds,
        compiled=tally.compiled,
        libraries=options.libraries,
        interrupted=interrupted,
        verdicts=dict(tally.verdicts),
        area=dict(tally.area),
        accepted=dict(tally.accepted.most_common()),
        known=issues.among(found),
        notices=issues.notices(found, tally.kernels, ops),
    )


def report_document(report: Report) -> dict[str, Any]:
    """The report as plain JSON values."""
    return {
        "format": FORMAT,
        "findings": [finding_document(finding) for finding in report.findings],
        "cases": report.cases,
        "passed": report.passed,
        "failed": report.failed,
        "abstained": report.abstained,
        "reasons": dict(report.reasons),
        "seconds": round(report.seconds, 3),
        "seed": report.seed,
        "devices": list(report.devices),
        "versions": dict(report.versions),
        "builds": report.builds,
        "compiled": report.compiled,
        "accepted": dict(report.accepted),
        "waiting": report.waiting,
        "with": list(report.libraries),
        "interrupted": report.interrupted,
        "verdicts": [[*cell, count] for cell, count in sorted(report.verdicts.items())],
        "area": [[*spot, count] for spot, count in sorted(report.area.items())],
        "known": [
            {
                "finding": one.finding,
                "signature": one.issue.signature,
                "link": one.issue.link,
                "expires": one.issue.expires.isoformat(),
            }
            for one in report.known
        ],
        "notices": list(report.notices),
    }


def finding_document(finding: Finding) -> dict[str, Any]:
    """One finding as plain JSON values."""
    signature = finding.fail.signature
    document: dict[str, Any] = {
        "id": finding.id,
        "oracle": signature.oracle,
        "severity": str(signature.severity),
        "kernel": signature.kernel,
        "op": finding.case.op,
        "place": signature.place,
        "signature": str(signature),
        "message": finding.fail.message,
        "meaning": finding.fail.meaning,
        "source": json.loads(to_json(finding.fail.source)) if finding.fail.source else None,
        "config": finding.launch.config if finding.launch else None,
        "pictures": _plain_pictures(finding.fail.pictures),
        "first_pictures": _plain_pictures(finding.first_pictures),
        "excerpt": json.loads(to_json(finding.excerpt)) if finding.excerpt else None,
        "launch": json.loads(to_json(finding.launch)) if finding.launch else None,
        "confirmed": finding.confirmed,
        "repeats": json.loads(to_json(finding.repeats)),
        "sightings": finding.sightings,
        "case": json.loads(to_json(finding.case)),
        "first_case": json.loads(to_json(finding.first_case)),
        "with": list(finding.libraries),
        "replay": replay_command(finding),
    }
    if finding.where:
        document["where"] = list(finding.where)
    if finding.needs is not None:
        document["needs"] = json.loads(to_json(finding.needs))
    return document


def _plain_pictures(pictures: tuple[Picture, ...]) -> Any:
    return json.loads(to_json(Pictures(pictures=pictures)))["pictures"]


def replay_command(finding: Finding) -> str:
    """What to type to see the finding again."""
    return shlex.join(("harness", "replay", finding.id, *finding.where))
