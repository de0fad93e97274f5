"""The verdict of a gate: what fails it, what is only listed, and what was not checked."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from harness.documents.campaign import CampaignReport
from harness.documents.gate_report import GateReport, GateVerdict, Standing
from harness.documents.op_checks import UncheckedOp
from harness.gate.base_replays import BaseAnswer
from harness.gate.gate_verdict import judged
from harness.model.finding import Finding, ReplayCount
from harness.model.verdict import Severity
from tests.reports.samples import KNOWN, OVERLAP, REPORT, VALUES

GATE = GateReport(verdict=GateVerdict.PASSED, base="main", commit="0" * 40, op_count=3, changes=())
CLEAN = replace(REPORT, findings=(), known_findings=(), missing=(), unchecked=(), suite_errors=(), interrupted=False)
ERROR = replace(VALUES, confirmed=True)
NEW, AT_BASE = BaseAnswer(standing=Standing.NEW), BaseAnswer(standing=Standing.AT_BASE)


def of(
    report: CampaignReport, *answers: BaseAnswer, too_few: str = "", fail_on: Severity = Severity.WARNING
) -> GateReport:
    def ask(findings: Sequence[Finding]) -> Iterator[BaseAnswer]:
        assert len(findings) == len(answers)
        yield from answers

    return judged(GATE, report, too_few, fail_on, ask)


@pytest.mark.parametrize(
    ("answer", "fail_on", "verdict"),
    [
        (NEW, Severity.WARNING, GateVerdict.FAILED),
        (NEW, Severity.ERROR, GateVerdict.FAILED),
        (BaseAnswer(standing=Standing.NEW, note="could not run there: it has no such op"), "error", GateVerdict.FAILED),
        (AT_BASE, Severity.WARNING, GateVerdict.PASSED),
    ],
)
def test_a_confirmed_error_fails_unless_the_base_shows_it(
    answer: BaseAnswer, fail_on: Severity, verdict: GateVerdict
) -> None:
    gate = of(replace(CLEAN, findings=(ERROR,)), answer, fail_on=Severity(fail_on))
    assert (gate.verdict, gate.findings[0].standing, gate.findings[0].note) == (verdict, answer.standing, answer.note)


def test_a_new_warning_fails_by_default_alone() -> None:
    report = replace(CLEAN, findings=(replace(OVERLAP, confirmed=True, symptoms=()),))
    assert of(report, NEW).verdict is GateVerdict.FAILED
    assert of(report, NEW, fail_on=Severity.ERROR).verdict is GateVerdict.PASSED


def test_what_does_not_repeat_is_flaky_and_passes() -> None:
    flaky = replace(ERROR, confirmed=False, repeats=ReplayCount(shown=0, runs=5))
    gate = of(replace(CLEAN, findings=(flaky,)))
    assert (gate.verdict, gate.findings[0].standing) == (GateVerdict.PASSED, Standing.FLAKY)


def test_a_known_issue_passes_and_the_base_is_not_asked() -> None:
    known = replace(KNOWN, finding=ERROR.id)
    gate = of(replace(CLEAN, findings=(ERROR,), known_findings=(known,)))
    assert (gate.verdict, gate.findings[0].standing) == (GateVerdict.PASSED, Standing.KNOWN)


def test_a_finding_that_there_was_no_time_to_repeat_is_not_checked() -> None:
    untried = replace(ERROR, confirmed=False, repeats=ReplayCount(shown=0, runs=0))
    gate = of(replace(CLEAN, findings=(untried,)))
    assert gate.verdict is GateVerdict.NOT_CHECKED
    assert gate.not_checked == ("there was no time to repeat 1 finding",)


@pytest.mark.parametrize(
    ("report", "too_few", "reason"),
    [
        (replace(CLEAN, interrupted=True), "", "the search was interrupted"),
        (CLEAN, "0 cases could be checked", "0 cases could be checked"),
        (
            replace(CLEAN, unchecked=(UncheckedOp(op="a.py:norm", device="", reason="tt.histogram"),)),
            "",
            "1 op could not be checked: norm (tt.histogram)",
        ),
        (replace(CLEAN, unchecked_regressions=("1234 of a.json: gone",)), "", "1234 of a.json: gone"),
    ],
)
def test_what_was_not_checked_never_passes(report: CampaignReport, too_few: str, reason: str) -> None:
    gate = of(report, too_few=too_few)
    assert (gate.verdict, gate.not_checked) == (GateVerdict.NOT_CHECKED, (reason,))
    failed = of(replace(report, findings=(ERROR,)), NEW, too_few=too_few)
    assert failed.verdict is GateVerdict.FAILED
