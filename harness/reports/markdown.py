"""A short summary in Markdown, for the page that a CI system shows beside a run."""

from collections.abc import Iterator

from harness.findings.campaign_report import replay_command
from harness.model.verdict import Severity
from harness.reports.contents import Gathered, ReportedBug
from harness.reports.finding_text import describe
from harness.reports.report_history import stages
from harness.reports.summary import told

MOST = 20
"""Findings in the table; the page has them all."""
SPECIAL = str.maketrans({char: f"\\{char}" for char in "\\`*_[]<>#|~$@"})
"""With `#`, `@` and `$`: on the common forges they name issues, call people and begin formulas."""


def summary(gathered: Gathered) -> str:
    """Counts, a table of findings, what changed, and what could not be read."""
    return "\n".join(_lines(gathered)) + "\n"


def _lines(gathered: Gathered) -> Iterator[str]:
    errors, warnings = gathered.count(Severity.ERROR), gathered.count(Severity.WARNING)
    yield f"### kernel-harness: {told(errors, warnings)}"
    if gathered.campaigns:
        rate = f", {gathered.cases / gathered.seconds:.1f} a second" if gathered.seconds else ""
        passed, failed, abstained = (
            sum(counts)
            for counts in zip(
                *((one.report.passed, one.report.failed, one.report.abstained) for one in gathered.campaigns),
                strict=True,
            )
        )
        yield ""
        yield f"{gathered.cases:,} cases{rate}: {passed:,} passed, {failed:,} failed, {abstained:,} abstained."
    if gathered.bugs:
        yield ""
        yield "| | promise | where | smallest case | seen | replay |"
        yield "|---|---|---|---|---:|---|"
        yield from map(_row, gathered.bugs[:MOST])
    if len(gathered.bugs) > MOST:
        yield ""
        yield f"And {len(gathered.bugs) - MOST} more."
    yield from _changes(gathered)
    if gathered.damaged:
        yield ""
        yield "Could not be read:"
        yield from (f"- {escaped(complaint)}" for complaint in gathered.damaged)
    if gathered.notices:
        yield ""
        yield from (f"- {escaped(notice)}" for notice in gathered.notices)


def _row(bug: ReportedBug) -> str:
    finding = bug.finding
    signature = finding.fail.signature
    marks = [str(signature.severity)]
    marks += ["flaky"] if finding.repeats.is_flaky else []
    marks += [] if finding.confirmed else ["unconfirmed"]
    marks += ["known"] if bug.link else []
    where = " ".join(part for part in (signature.kernel or finding.case.op_name, signature.place) if part)
    case = f"{describe(finding.case)}, {finding.case.device.slug}"
    shown = (", ".join(marks), signature.oracle, where, case, f"{finding.sightings:,}")
    return f"| {' | '.join(map(escaped, shown))} | `{replay_command(finding)}` |"


def _changes(gathered: Gathered) -> Iterator[str]:
    rows = stages(gathered)
    if rows:
        last = rows[-1]
        yield ""
        yield f"Against the report before: {len(last.new)} new, {len(last.still)} still, {len(last.gone)} gone."
        yield from (f"- new: {escaped(str(signature))}" for signature in last.new)
        yield from (f"- gone: {escaped(str(signature))}" for signature in last.gone)


def escaped(text: str) -> str:
    """The text as itself on one line, whatever it holds."""
    return " ".join(text.translate(SPECIAL).split())
