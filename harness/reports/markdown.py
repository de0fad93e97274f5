"""A short summary in Markdown, for the page of a CI run."""

from collections.abc import Iterator

from harness.model.hardware_blame import Blame
from harness.model.verdict import Severity
from harness.reports.contents import ReportContents, ReportedBug
from harness.reports.finding_text import describe, symptom_count
from harness.reports.report_history import stages
from harness.reports.row_table import RowTable
from harness.reports.summary import checks, count_text, name_of, named, unchecked_lines
from harness.wording import counted

MOST = 20
"""The most findings in the table; the HTML page has all."""
SPECIAL = str.maketrans({char: f"\\{char}" for char in "\\`*_[]<>#|~$@"})
"""Also `#`, `@` and `$`: GitHub and GitLab turn them into issue links, mentions and formulas."""


def summary(contents: ReportContents) -> str:
    """Return counts, a table of findings, the changes, and the files that could not be read."""
    return "\n".join(_lines(contents)) + "\n"


def _lines(contents: ReportContents) -> Iterator[str]:
    errors, warnings = contents.count(Severity.ERROR), contents.count(Severity.WARNING)
    yield f"### kernel-harness: {count_text(errors, warnings)}"
    if contents.campaigns:
        report = contents.together
        rate = f", {report.cases / report.seconds:.1f} per second" if report.seconds else ""
        yield ""
        yield (
            f"{counted(report.cases, 'case')}{rate}: "
            f"{report.passed:,} passed, {report.failed:,} failed, {report.abstained:,} abstained."
        )
        if report.missing:
            yield ""
            yield f"**Did not report: {escaped(', '.join(report.missing))}.**"
        untried = (f"not tried: {kind}: {named(map(name_of, ops))}" for kind, ops in report.untried.items())
        for line in (*checks((), report.op_checks), *untried, *unchecked_lines(report.unchecked)):
            yield ""
            yield f"{escaped(line[0].upper() + line[1:])}."
    if contents.bugs:
        yield ""
        yield "| | oracle | place | smallest case | seen | replay |"
        yield "|---|---|---|---|---:|---|"
        yield from map(_row, contents.bugs[:MOST])
    if len(contents.bugs) > MOST:
        yield ""
        yield f"And {len(contents.bugs) - MOST} more."
    yield from _row_table(contents.row_table)
    yield from _changes(contents)
    if contents.damaged:
        yield ""
        yield "Could not be read:"
        yield from (f"- {escaped(complaint)}" for complaint in contents.damaged)
    if contents.notices:
        yield ""
        yield from (f"- {escaped(notice)}" for notice in contents.notices)


def _row(bug: ReportedBug) -> str:
    finding = bug.finding
    signature = finding.fail.signature
    marks = [str(finding.severity)]
    marks += ["flaky"] if finding.repeats.is_flaky else []
    marks += [] if finding.confirmed else [finding.confirmation]
    marks += ["known"] if bug.link else []
    blame = finding.hardware_blame
    marks += [f"at fault: {blame.blame}"] if blame and blame.blame is not Blame.UNKNOWN else []
    place = " ".join(part for part in (signature.kernel or finding.case.op_name, signature.place) if part)
    if finding.symptoms:
        place += f" (and {symptom_count(finding)})"
    case = f"{describe(finding.case)}, {finding.case.device.slug}"
    shown = (", ".join(marks), signature.oracle, place, case, f"{finding.sightings:,}")
    return f"| {' | '.join(map(escaped, shown))} | `{finding.replay_command}` |"


def _row_table(table: RowTable) -> Iterator[str]:
    if table.lines:
        yield ""
        yield "Rows in other company:"
        yield ""
        yield f"| op | kernel | config | {' | '.join(map(escaped, table.devices))} |"
        yield f"|---|---|---|{'---|' * len(table.devices)}"
    for line in table.lines:
        yield f"| {' | '.join(map(escaped, (line.op, line.kernel, line.config_words, *line.cells)))} |"


def _changes(contents: ReportContents) -> Iterator[str]:
    rows = stages(contents)
    if rows:
        last = rows[-1]
        yield ""
        returned = f", {len(last.back)} back" if last.back else ""
        counts = f"{len(last.new)} new{returned}, {len(last.still)} still, {len(last.gone)} gone"
        unseen = f", {len(last.not_looked_at)} not looked at" if last.not_looked_at else ""
        yield f"Compared with the previous report: {counts}{unseen}."
        yield from (f"- new: {escaped(str(signature))}" for signature in last.new)
        yield from (f"- back: {escaped(str(signature))}" for signature in last.back)
        yield from (f"- gone: {escaped(str(signature))}" for signature in last.gone)
        yield from (f"- not looked at: {escaped(str(signature))}" for signature in last.not_looked_at)


def escaped(text: str) -> str:
    """Return the text on one line, with all Markdown characters escaped."""
    return " ".join(text.translate(SPECIAL).split())
