"""The verdict of a gate, from the report of the search and from what the base shows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from harness.documents.campaign import CampaignReport, counts
from harness.documents.gate_report import GateReport, GateVerdict, JudgedFinding, Standing
from harness.gate.base_replays import BaseAnswer
from harness.model.finding import Confirmation, Finding
from harness.model.verdict import Severity
from harness.wording import counted

MOST = 3
"""The most ops that a reason names."""

AskBase = Callable[[Sequence[Finding]], Iterable[BaseAnswer]]


def judged(gate: GateReport, report: CampaignReport, too_few: str, fail_on: Severity, ask_base: AskBase) -> GateReport:
    """Return the gate with its findings and its verdict.

    Args:
        gate: what the change touches.
        report: of the search.
        too_few: why the search shows too little; empty if it does not.
        fail_on: the lowest severity for which the gate fails.
        ask_base: replays findings at the base.
    """
    standings = {finding.id: _standing(finding, report) for finding in report.findings}
    asked = [finding for finding in report.findings if standings[finding.id] is Standing.NEW]
    answers = {finding.id: answer for finding, answer in zip(asked, ask_base(asked), strict=True)}
    findings = tuple(
        _finding(finding, answers.get(finding.id) or BaseAnswer(standing=standings[finding.id]), fail_on)
        for finding in report.findings
    )
    not_checked = tuple(_not_checked(report, too_few, findings))
    verdict = GateVerdict.NOT_CHECKED if not_checked else GateVerdict.PASSED
    if any(finding.fails for finding in findings):
        verdict = GateVerdict.FAILED
    return replace(gate, verdict=verdict, findings=findings, not_checked=not_checked, campaign=report)


def _standing(finding: Finding, report: CampaignReport) -> Standing:
    """Return the standing of a finding before the base is asked: new, unless there is no need to ask."""
    if finding.id in {known.finding for known in report.known_findings}:
        return Standing.KNOWN
    match finding.confirmation:
        case Confirmation.CONFIRMED:
            return Standing.NEW
        case Confirmation.NOT_CONFIRMED:
            return Standing.FLAKY
        case Confirmation.NOT_TRIED:
            return Standing.NOT_CONFIRMED


def _finding(finding: Finding, answer: BaseAnswer, fail_on: Severity) -> JudgedFinding:
    return JudgedFinding(
        finding=finding.id,
        signature=str(finding.fail.signature),
        standing=answer.standing,
        fails=answer.standing is Standing.NEW and counts(finding, fail_on),
        note=answer.note,
    )


def _not_checked(report: CampaignReport, too_few: str, findings: Iterable[JudgedFinding]) -> Iterator[str]:
    if too_few:
        yield too_few
    if report.interrupted:
        yield "the search was interrupted"
    yield from report.suite_errors
    if report.unchecked_ops:
        names = list(map(str, report.unchecked_ops))
        more = f", and {len(names) - MOST} more" if len(names) > MOST else ""
        yield f"{counted(len(names), 'op')} could not be checked: {', '.join(names[:MOST])}{more}"
    yield from report.unchecked_regressions
    untried = sum(finding.standing is Standing.NOT_CONFIRMED for finding in findings)
    if untried:
        yield f"there was no time to repeat {counted(untried, 'finding')}"
