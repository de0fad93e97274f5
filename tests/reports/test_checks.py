"""Every report says which checks ran, and names the ops that were not checked."""

from dataclasses import replace
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest

from harness.cli.command import ExitStatus
from harness.cli.search_output import status_of
from harness.documents import files
from harness.documents.campaign import CampaignReport
from harness.documents.op_checks import OpChecks, unchecked, untried
from harness.model.paired_run import SecondRun
from harness.model.verdict import Severity
from harness.reports import markdown
from harness.reports.contents import ReportContents, ReportedCampaign
from harness.reports.html.page import page
from harness.reports.junit import junit
from harness.reports.summary import conclusion, summary
from tests.reports.samples import REPORT
from tests.search.fakes import OP

ROWS = (
    OpChecks(
        op=OP.id,
        device="h200",
        passed=40,
        failed=15,
        abstained=2,
        oversized=4,
        may_be_oversized=True,
        long=7,
        may_be_long=True,
        second_runs={SecondRun.SM_COUNT: 9, SecondRun.CONFIG: 3, SecondRun.ORDER: 0},
        builds=9,
        compiled_builds=8,
    ),
    OpChecks(
        op="suites/a.py:other",
        device="h200",
        abstained=3,
        abstain_reasons={"no kernel was launched": 3},
        impossible=("long cases: no dim may exceed 32,766", "oversized cases: no dim grows"),
    ),
)
CHECKED = replace(REPORT, op_checks=ROWS, unchecked=unchecked(ROWS), untried=untried(ROWS))
CONTENTS = ReportContents(bugs=(), campaigns=(ReportedCampaign(name="nightly", report=CHECKED),))
UNCHECKED = "other (3 of 3 cases: no kernel was launched)"


def test_the_summary_counts_checks_and_names_what_is_missing() -> None:
    lines = list(summary(CHECKED))
    assert "checked: completes 28, bounds 22" in lines
    assert (
        "among them: long 7, beyond 2^31 elements 4, runs with another config 3, runs in another order 0, "
        "runs at another SM count 9" in lines
    )
    assert "no long cases: no dim may exceed 32,766: other" in lines
    assert "no oversized cases: no dim grows: other" in lines
    assert any(line.startswith("resources checked for 8 of 9 compiled kernels: the compiler") for line in lines)
    assert "not tried: runs in another order: layer_norm" in lines
    assert f"not checked: {UNCHECKED}" in lines
    assert lines[-1].endswith("; 1 of 2 ops could not be checked")
    assert conclusion(replace(CHECKED, findings=())) == "no findings; 1 of 2 ops could not be checked"


def test_resources_of_all_kernels_need_no_explanation() -> None:
    assert "resources checked for 9 of 9 compiled kernels" in list(summary(replace(CHECKED, compiled_builds=9)))


def test_the_summary_says_that_intel_gpus_have_no_backend() -> None:
    report = replace(CHECKED, compiled_builds=0, devices=("h200 (132 SMs, sm_90)", "pvc (64 Xe-cores, pvc)"))
    why = "Triton 3.6.0 has no backend for Intel's GPUs"
    assert f"resources checked for 0 of 9 compiled kernels: {why}" in list(summary(report))


def test_a_pair_that_a_device_lacks_is_named() -> None:
    rows = (ROWS[0], replace(ROWS[1], op=OP.id, device="a100"))
    report = replace(REPORT, findings=(), op_checks=rows, unchecked=unchecked(rows))
    assert "not checked on every device: layer_norm on a100 (3 of 3 cases: no kernel was launched)" in list(
        summary(report)
    )
    assert (conclusion(report), report.unchecked_ops) == ("no findings", ())


def test_a_long_search_of_few_cases_says_so_next_to_no_findings() -> None:
    report = replace(REPORT, findings=(), op_checks=(replace(ROWS[0], passed=2, failed=0, abstained=0),), unchecked=())
    assert conclusion(replace(report, seconds=66.0)) == "no findings, but too few cases to say much: layer_norm 2"
    assert conclusion(replace(report, seconds=6.0)) == "no findings"


@pytest.mark.parametrize(
    ("seconds", "checked", "status"),
    [(55.0, 2, ExitStatus.NOTHING_CHECKED), (55.0, 10, ExitStatus.CLEAN), (5.0, 2, ExitStatus.CLEAN)],
)
def test_a_minute_with_hardly_a_case_is_not_clean(seconds: float, checked: int, status: ExitStatus) -> None:
    row = replace(ROWS[0], passed=checked, failed=0, abstained=0)
    report = replace(REPORT, findings=(), op_checks=(row,), unchecked=(), seconds=seconds, passed=checked, failed=0)
    assert status_of(report, Severity.WARNING) is status
    assert ("too few" in conclusion(report)) == (status is ExitStatus.NOTHING_CHECKED)


def test_many_unchecked_ops_are_one_short_line() -> None:
    rows = tuple(OpChecks(op=f"a.py:op{number}", device="h200") for number in range(9))
    (line,) = (line for line in summary(replace(REPORT, unchecked=unchecked(rows))) if line.startswith("not checked:"))
    assert line.startswith("not checked: op0 (no case ran), op1 (no case ran), ")
    assert line.endswith(", op4 (no case ran), and 4 more")


def test_a_report_with_checks_is_read_back_whole() -> None:
    assert files.loads(files.dumps(CHECKED), CampaignReport) == CHECKED


def test_the_page_has_a_row_for_each_op_and_device() -> None:
    text = page(CONTENTS, datetime(2026, 1, 2, tzinfo=UTC))
    assert f"No case could be checked of: {UNCHECKED}." in text
    assert 'href="#checked"' in text
    assert text.count('<span class="tag">not checked</span>') == 1
    assert '<th scope="col" class="number">Runs at another SM count</th>' in text


def test_markdown_names_what_was_not_checked() -> None:
    text = markdown.summary(CONTENTS)
    assert "Among them: long 7, beyond 2^31 elements 4" in text
    assert "Not checked: other (3 of 3 cases: no kernel was launched)." in text


def test_junit_skips_a_test_for_an_unchecked_op() -> None:
    tests = {test.get("name"): test for test in ET.fromstring(junit(CONTENTS)).iter("testcase")}  # noqa: S314 - our own
    skipped = tests["other"].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "3 of 3 cases: no kernel was launched"


def test_an_op_that_another_search_checked_is_not_named() -> None:
    other = replace(CHECKED, op_checks=(replace(ROWS[1], passed=1, oversized=1),))
    both = replace(CONTENTS, campaigns=(*CONTENTS.campaigns, ReportedCampaign(name="more", report=other))).together
    assert (both.unchecked, [row.cases for row in both.op_checks]) == ((), [57, 7])
