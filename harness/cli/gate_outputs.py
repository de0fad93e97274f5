"""What `harness gate` prints and writes."""

from dataclasses import dataclass, replace
from pathlib import Path

from harness.cli.output import console, print_lines, print_progress, show
from harness.cli.search_output import write
from harness.documents.campaign import CampaignReport
from harness.documents.gate_report import GateReport, Standing
from harness.errors import HarnessError, UsageError
from harness.findings.recorded_cases import recorded_finding
from harness.model.finding import Finding
from harness.reports.annotations import annotations
from harness.reports.contents import NOTHING_RAN, ReportContents, ReportedBug, ReportedCampaign
from harness.reports.finding_text import Sources, render
from harness.reports.gate_markdown import gate_markdown
from harness.reports.gate_text import change_lines, finding_lines, verdict_line
from harness.reports.sarif import sarif
from harness.reports.summary import summary
from harness.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOutputs:
    """Where the result goes besides standard output."""

    project: Path
    root: Path
    """The top of the repository."""
    markdown: Path | None = None
    sarif: Path | None = None
    json: Path | None = None
    reproducers: Path | None = None
    """A folder."""
    annotates: bool = False
    """True: workflow commands of GitHub Actions are printed."""

    def write(self, gate: GateReport, settings: Settings) -> None:
        """Write every file.

        Raises:
            StoreError: the disk is full, or a folder is gone.
            UsageError: a file cannot be written.
        """
        if self.json:
            write(gate, self.json)
        for path, text in ((self.markdown, gate_markdown), (self.sarif, self._sarif)):
            if path:
                _write_text(path, text(gate))
        if self.annotates:
            print_lines(annotations(gate, self.project, self.root))
        if self.reproducers:
            _write_reproducers(gate, self.reproducers, settings)

    def _sarif(self, gate: GateReport) -> str:
        report = gate.campaign or NOTHING_RAN
        links = {known.finding: known.link for known in report.known_findings}
        at_base = {judged.finding for judged in gate.of(Standing.AT_BASE)}
        earlier = replace(NOTHING_RAN, findings=tuple(each for each in report.findings if each.id in at_base))
        contents = ReportContents(
            bugs=tuple(
                ReportedBug(finding=finding, versions=report.versions, link=links.get(finding.id, ""))
                for finding in report.findings
            ),
            campaigns=(ReportedCampaign(name="gate", report=report),) if gate.campaign else (),
            earlier=(ReportedCampaign(name=gate.base, report=earlier),) if gate.campaign else (),
            notices=report.notices,
        )
        return sarif(contents, self.project)


def print_changes(gate: GateReport) -> None:
    """Print what the change touches."""
    print_lines(change_lines(gate.changes, gate.unreached, gate.op_count))


def print_result(gate: GateReport, sources: Sources) -> None:
    """Print the findings that fail, a line for each other one, what was checked, and the verdict."""
    report = gate.campaign
    if report is not None:
        screen = console()
        for finding in failing(gate, report):
            show(screen, render(finding, sources))
        *lines, _ = summary(report)
        print_lines(lines)
    print_lines((*finding_lines(gate), verdict_line(gate)))


def failing(gate: GateReport, report: CampaignReport) -> tuple[Finding, ...]:
    """Return the findings for which the gate fails."""
    named = {judged.finding for judged in gate.findings if judged.fails}
    return tuple(finding for finding in report.findings if finding.id in named)


def _write_reproducers(gate: GateReport, folder: Path, settings: Settings) -> None:
    from harness.findings.repro.build import Form, make  # noqa: PLC0415 - it needs an extra

    folder.mkdir(parents=True, exist_ok=True)
    for finding in failing(gate, gate.campaign) if gate.campaign else ():
        try:
            made = make(recorded_finding(finding), (), (Form.ENTRY,), print_progress, settings)
        except HarnessError as error:
            print_progress(f"no reproducer of {finding.id}: {error}")
            continue
        for file in made.files:
            _write_text(folder / f"repro-{finding.id}.py", file.text)
            if file.problem:
                print_progress(f"  NOT CONFIRMED: {file.problem}")
        for reason in made.missing:
            print_progress(f"{finding.id}: {reason}")


def _write_text(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    print_progress(str(path))
