"""The result of a gate as text, as a comment, and as workflow commands."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.documents import files
from harness.documents.gate_report import GateReport, GateVerdict, JudgedFinding, OpChange, Standing
from harness.model.finding import Finding
from harness.model.run import Source
from harness.reports.annotations import annotations
from harness.reports.gate_markdown import gate_markdown
from harness.reports.gate_text import change_lines, finding_lines, verdict_line
from tests.reports.samples import EVIL, OVERLAP, REPORT, STRAY, VALUES

CHANGE = OpChange(
    op="suites/fla/norm.py:layer_norm",
    through=("fla/norm.py: A", "fla/norm.py: B", "fla/norm.py: layer_norm_bwd_kernel", "fla/utils.py: C"),
    kernels=("layer_norm_bwd_kernel",),
)
NEW_OP = OpChange(op="suites/fla/norm.py:rms_norm", through=(), is_new=True)


def said(finding: Finding, standing: Standing, *, fails: bool = False, note: str = "") -> JudgedFinding:
    return JudgedFinding(
        finding=finding.id, signature=str(finding.fail.signature), standing=standing, fails=fails, note=note
    )


GATE = GateReport(
    verdict=GateVerdict.FAILED,
    base="main",
    commit="0123456789abcdef",
    op_count=5,
    changes=(CHANGE, NEW_OP),
    unreached=("fla/norm.py: unused",),
    findings=(
        said(OVERLAP, Standing.AT_BASE),
        said(VALUES, Standing.NEW, fails=True),
        said(STRAY, Standing.FLAKY),
    ),
    campaign=REPORT,
)
PASSED = replace(GATE, verdict=GateVerdict.PASSED, findings=(GATE.findings[0],))


@pytest.mark.parametrize(
    ("gate", "line"),
    [
        (GATE, "failed: 1 finding that main (0123456789ab) does not show; 1 also at main, 1 flaky"),
        (PASSED, "passed: no finding that main (0123456789ab) does not show; 1 also at main"),
        (
            replace(PASSED, changes=(), findings=()),
            "passed: nothing that an op reaches has changed since main (0123456789ab)",
        ),
        (
            replace(PASSED, verdict=GateVerdict.NOT_CHECKED, not_checked=("a", "b")),
            "not checked: a; b; 1 also at main",
        ),
    ],
)
def test_the_verdict_is_one_line(gate: GateReport, line: str) -> None:
    assert verdict_line(gate) == line
    assert line.split(" (", maxsplit=1)[0] in gate_markdown(gate).splitlines()[0].replace("\\", "")


def test_kernels_come_first_among_what_touches_an_op() -> None:
    assert list(change_lines(GATE.changes, GATE.unreached, 5)) == [
        "2 of 5 ops reach what has changed:",
        "  layer_norm  fla/norm.py: layer_norm_bwd_kernel, fla/norm.py: A, fla/norm.py: B, and 1 more",
        "  rms_norm    new",
        "kernels: layer_norm_bwd_kernel",
        "changed, and no op of these suites reaches it: fla/norm.py: unused",
    ]


def test_findings_that_do_not_fail_have_a_line_each() -> None:
    noted = replace(GATE, findings=(said(OVERLAP, Standing.AT_BASE, note="there as x"), *GATE.findings[1:]))
    assert [line.partition(" ")[0] for line in finding_lines(noted)] == ["also", "flaky:"]
    assert next(finding_lines(noted)).endswith(" (there as x)")


def test_the_comment_has_the_new_finding_first_and_whole() -> None:
    text = gate_markdown(GATE)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows[1:]] == ["| new", "| also at main", "| flaky"]
    assert f"`{VALUES.replay_command}`" in rows[1]
    assert text.count("<details>\n<summary>") >= 1
    assert "- rms\\_norm: new" in text
    assert EVIL not in text


def test_an_annotation_is_one_escaped_line() -> None:
    stray = replace(STRAY, fail=replace(STRAY.fail, message="100 % of a\nb, c:d"))
    report = replace(REPORT, findings=(stray,))
    gate = replace(GATE, findings=(said(stray, Standing.NEW, fails=True),), campaign=report)
    (line,) = annotations(gate, Path("/project"), Path("/project"))
    assert line.startswith("::error file=<script>alert('1 & 2')</script>.py,line=3,title=bounds%3A ")
    assert "::100 %25 of a%0Ab, c:d%0ASmallest case: " in line
    assert "\n" not in line


def test_an_annotation_names_the_file_from_the_top_of_the_repository(tmp_path: Path) -> None:
    file = tmp_path / "kernels" / "lib" / "norm.py"
    file.parent.mkdir(parents=True)
    file.write_text("a\nb\n", encoding="utf-8")
    finding = replace(VALUES, fail=replace(VALUES.fail, source=Source(file=str(file), line=2)))
    gate = replace(
        GATE,
        findings=(said(finding, Standing.FLAKY), said(OVERLAP, Standing.AT_BASE)),
        campaign=replace(REPORT, findings=(finding, OVERLAP)),
    )
    (line,) = annotations(gate, tmp_path / "kernels", tmp_path)
    assert line.startswith("::warning file=kernels/lib/norm.py,line=2,title=float64-values%3A layer_norm::")


def test_the_document_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "gate.json"
    files.write(GATE, path)
    read = files.read(path, GateReport)
    assert (read.verdict, read.findings, read.changes) == (GATE.verdict, GATE.findings, GATE.changes)
    assert read.campaign is not None
    assert [finding.id for finding in read.campaign.findings] == [finding.id for finding in REPORT.findings]
