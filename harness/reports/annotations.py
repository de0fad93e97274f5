"""Findings as workflow commands of GitHub Actions, which show them at their lines in a pull request.

Source: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands.
"""

from collections.abc import Iterator
from pathlib import Path

from harness.documents.gate_report import GateReport, Standing
from harness.model.finding import Finding
from harness.reports.finding_text import describe
from harness.reports.sarif import fault_place

UNCERTAIN = frozenset({Standing.FLAKY, Standing.NOT_CONFIRMED})


def annotations(gate: GateReport, project: Path, root: Path) -> Iterator[str]:
    """Yield an error for each finding that fails the gate, and a warning for each that did not repeat.

    Args:
        gate: the result.
        project: the folder to which names of suites refer.
        root: the top of the repository, to which the paths refer.
    """
    findings = {finding.id: finding for finding in gate.campaign.findings} if gate.campaign else {}
    for judged in gate.findings:
        if judged.fails:
            yield _command("error", findings[judged.finding], project, root)
        elif judged.standing in UNCERTAIN:
            yield _command("warning", findings[judged.finding], project, root)


def _command(level: str, finding: Finding, project: Path, root: Path) -> str:
    file, line = fault_place(finding, project)
    if (project / file).is_file() and project.is_relative_to(root):
        file = (project / file).relative_to(root).as_posix()
    signature = finding.fail.signature
    title = f"{signature.oracle}: {signature.kernel or finding.case.op_name}"
    text = (
        f"{finding.fail.message}\nSmallest case: {describe(finding.case)}, on {finding.case.device.slug}.\n"
        f"Replay: {finding.replay_command}"
    )
    return f"::{level} file={_property(file)},line={line},title={_property(title)}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
