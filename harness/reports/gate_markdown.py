"""The result of a gate in Markdown, as a comment on a pull request."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import PurePath

from harness.documents.gate_report import GateReport, GateVerdict, JudgedFinding
from harness.model.finding import Finding
from harness.reports.contents import ReportedBug
from harness.reports.finding_text import describe
from harness.reports.gate_text import base_name, standing_text, through_text, verdict_line
from harness.reports.issue_text import issue_body, issue_title
from harness.reports.markdown import escaped
from harness.reports.summary import name_of

MARKS = {GateVerdict.PASSED: "✅", GateVerdict.FAILED: "❌", GateVerdict.NOT_CHECKED: "⚠️"}
MOST = 20
"""The most findings in the table, and the most ops."""
MOST_WHOLE = 5
"""The most findings with a text of their own: a comment has 65,536 characters."""
LONGEST = 60_000


def gate_markdown(gate: GateReport) -> str:
    """Return the verdict, a table of findings, each new one as the text of an issue, and what the change touches."""
    findings = {finding.id: finding for finding in gate.campaign.findings} if gate.campaign else {}
    text = "\n".join(_lines(gate, findings)) + "\n"
    for judged in [judged for judged in gate.findings if judged.fails][:MOST_WHOLE]:
        folded = _folded(findings[judged.finding])
        if len(text) + len(folded) <= LONGEST:
            text += folded
    return text


def _lines(gate: GateReport, findings: Mapping[str, Finding]) -> Iterator[str]:
    yield f"### {MARKS[gate.verdict]} kernel-harness gate {escaped(verdict_line(gate))}"
    ranked = sorted(gate.findings, key=lambda judged: not judged.fails)
    if ranked:
        yield ""
        yield "| | finding | smallest case | line | replay |"
        yield "|---|---|---|---|---|"
        yield from (_row(judged, findings[judged.finding], gate) for judged in ranked[:MOST])
    if len(ranked) > MOST:
        yield ""
        yield f"And {len(ranked) - MOST} more."
    if gate.changes:
        yield ""
        yield f"Ops that reach what differs from {escaped(base_name(gate))}: {len(gate.changes)} of {gate.op_count}."
        yield ""
        yield from _listed([f"{name_of(each.op)}: {through_text(each)}" for each in gate.changes])
    if gate.unreached:
        yield ""
        yield "Changed, and no op of these suites reaches it:"
        yield ""
        yield from _listed(gate.unreached)
    if gate.campaign:
        report = gate.campaign
        yield ""
        yield (
            f"{report.cases:,} cases on {escaped(', '.join(report.devices))}: {report.passed:,} passed, "
            f"{report.failed:,} failed, {report.abstained:,} abstained."
        )


def _listed(items: Sequence[str]) -> Iterator[str]:
    yield from (f"- {escaped(item)}" for item in items[:MOST])
    if len(items) > MOST:
        yield f"- and {len(items) - MOST} more"


def _row(judged: JudgedFinding, finding: Finding, gate: GateReport) -> str:
    source = finding.fail.source
    file = finding.excerpt.file if finding.excerpt else PurePath(source.file).name if source else ""
    cells = (
        standing_text(judged, gate) + (f" ({judged.note})" if judged.note else ""),
        judged.signature,
        f"{describe(finding.case)}, {finding.case.device.slug}",
        f"{file}:{source.line}" if source else "",
    )
    return f"| {' | '.join(map(escaped, cells))} | `{finding.replay_command}` |"


def _folded(finding: Finding) -> str:
    bug = ReportedBug(finding=finding)
    return f"\n<details>\n<summary>{escape(issue_title(bug))}</summary>\n\n{issue_body(bug)}\n</details>\n"
