"""The short forms for CI systems: Markdown, JUnit XML, and the list in a terminal."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.cli.findings import listed
from harness.documents.finding import finding_document
from harness.documents.op_checks import OpChecks
from harness.model.finding import Finding, ReplayCount
from harness.model.verdict import Severity
from harness.reports.contents import ReportContents, ReportedBug, ReportedCampaign
from harness.reports.finding_text import MOST_SYMPTOMS, Sources, render
from harness.reports.html.page import page
from harness.reports.junit import junit
from harness.reports.markdown import summary
from harness.reports.report_history import stages
from harness.reports.sarif import sarif
from harness.reports.summary import eager_lines
from harness.wire import to_json
from tests.reports.samples import (
    CAUSE,
    EVIL,
    GONE,
    LINK,
    MISCOMPILED,
    MISSING,
    OLDER,
    OVERLAP,
    REPORT,
    STRAY,
    VALUES,
    with_missing,
)
from tests.search.fakes import OP


def bug(finding: Finding, link: str = "") -> ReportedBug:
    return ReportedBug(finding=finding, link=link)


GATHERED = ReportContents(
    bugs=(bug(VALUES), bug(STRAY), bug(OVERLAP, LINK)),
    campaigns=(ReportedCampaign(name="nightly", report=REPORT),),
    earlier=(ReportedCampaign(name="older", report=OLDER),),
    damaged=("broken/finding.json: not readable",),
)

SUMMARY = rf"""### kernel-harness: 3 findings: 2 errors, 1 warning

60 cases, 4.8 per second: 40 passed, 15 failed, 5 abstained.

| | oracle | place | smallest case | seen | replay |
|---|---|---|---|---:|---|
| error, flaky | float64-values | layer\_norm d:x | layer\_norm T=450 D=1 G=1 fp32, no residual or weight, rtx-pro-6000 | 9 | `harness replay {VALUES.id}` |
| error, not tried | bounds | \<script\>alert('1 & 2')\</script\> a\|b.py:3 | layer\_norm T=3 D=1 G=1 fp32, no residual or weight, rtx-pro-6000 | 9 | `harness replay {STRAY.id}` |
| warning, known | write-overlap | layer\_norm\_bwd\_kernel layernorm.py:431 | layer\_norm T=3 D=1 G=1 fp32, no residual or weight, rtx-pro-6000 | 9 | `harness replay {OVERLAP.id}` |

Rows in other company:

| op | kernel | config | b200 | h200 |
|---|---|---|---|---|
| layer\_norm | torch | none | not compared | wrong in 4 of 4 |
| layer\_norm | \<script\>alert('1 & 2')\</script\> | BT: 16 | rounding in 2 of 5 | not compared |
| layer\_norm | \<script\>alert('1 & 2')\</script\> | BT: 32 | rounding in 1 of 1 | same bits (1) |

Compared with the previous report: 2 new, 1 still, 0 gone, 1 not looked at.
- new: bounds: \<script\>alert('1 & 2')\</script\> a\|b.py:3
- new: float64-values: layer\_norm d:x
- not looked at: unwritten: layer\_norm d:x

Could not be read:
- broken/finding.json: not readable
"""  # noqa: E501 - a table's row is one line


def test_the_markdown_summary_is_short_and_escaped() -> None:
    assert summary(GATHERED) == SUMMARY


def test_a_summary_without_findings_is_one_line() -> None:
    assert summary(ReportContents(bugs=())) == "### kernel-harness: no findings\n"


def test_the_markdown_summary_marks_who_is_at_fault_on_hardware() -> None:
    text = summary(ReportContents(bugs=(bug(replace(OVERLAP, hardware_blame=MISCOMPILED)),)))
    assert "at fault: assembler |" in text


def test_many_findings_are_cut_in_the_summary() -> None:
    text = summary(ReportContents(bugs=tuple(bug(OVERLAP) for _ in range(23))))
    assert text.count("harness replay") == 20
    assert "And 3 more." in text


def test_junit_has_one_test_for_each_op() -> None:
    suite = ET.fromstring(junit(GATHERED))[0]  # noqa: S314 - our own document
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped", "time")} == {
        "tests": "2",
        "failures": "1",
        "skipped": "0",
        "time": "12.500",
    }
    failed, passed = suite.iter("testcase")
    assert (failed.get("classname"), failed.get("name")) == ("suites.fla.norm", "layer_norm")
    assert [child.tag for child in failed] == ["properties", "failure", "system-out"]
    told = [(one.get("name"), one.get("value")) for one in failed.iter("property")]
    assert told[:8] == [
        ("finding", VALUES.id),
        ("signature", "float64-values: layer_norm d:x"),
        ("severity", "error"),
        ("confirmation", "confirmed"),
        ("device", "rtx-pro-6000"),
        ("sm_count", "188"),
        ("seed", "0"),
        ("case", VALUES.case.digest),
    ]
    assert [value for name, value in told if name == "finding"] == [VALUES.id, STRAY.id, OVERLAP.id]
    failure = failed.find("failure")
    assert failure is not None
    assert failure.get("message") == (
        f"float64-values: d:x[1, 2, 4] is nan [{VALUES.id}]; bounds: program 3 of {EVIL} loads `8 lanes` [{STRAY.id}]"
    )
    assert OVERLAP.id not in str(failure.text), "the finding is known"
    assert (passed.get("classname"), passed.get("name")) == ("suites.a", "other")
    assert passed.findtext("system-out") == "completes on b200: 3 passed"


def test_junit_names_do_not_depend_on_what_was_drawn() -> None:
    drawn_otherwise = bug(replace(VALUES, case=replace(VALUES.case, seed=9)))
    one, other = (
        [(test.get("classname"), test.get("name")) for test in ET.fromstring(junit(contents)).iter("testcase")]  # noqa: S314
        for contents in (GATHERED, replace(GATHERED, bugs=(drawn_otherwise,)))
    )
    assert one == other


@pytest.mark.parametrize(
    ("bugs", "reason"),
    [((bug(OVERLAP, LINK),), f"known: {LINK}"), ((), "the findings of its failed cases are those of other ops")],
)
def test_an_op_without_new_findings_is_skipped_in_junit(bugs: tuple[ReportedBug, ...], reason: str) -> None:
    tests = ET.fromstring(junit(replace(GATHERED, bugs=bugs))).iter("testcase")  # noqa: S314 - our own document
    test = next(test for test in tests if test.get("name") == "layer_norm")
    skipped = test.find("skipped")
    assert skipped is not None
    assert (test.find("failure"), skipped.get("message")) == (None, reason)


def test_what_did_not_report_is_an_error_for_ci_systems() -> None:
    lacking = with_missing(GATHERED)
    assert f"\n\n**Did not report: {MISSING}.**\n\n" in summary(lacking)
    suite = ET.fromstring(junit(lacking))[0]  # noqa: S314 - our own document
    assert (suite.get("errors"), suite.get("failures")) == ("1", "1")
    (error,) = suite.iter("error")
    assert error.get("message") == "did not report"
    assert "<error" not in junit(GATHERED)


def test_junit_drops_characters_that_xml_forbids() -> None:
    odd = replace(VALUES, fail=replace(VALUES.fail, message="a\x00\x1b[31m\ud800\uffffb"))
    failure = ET.fromstring(junit(ReportContents(bugs=(bug(odd),)))).find(".//failure")  # noqa: S314 - as above
    assert failure is not None
    assert failure.get("message") == f"float64-values: a[31mb [{VALUES.id}]"


@pytest.mark.parametrize(
    ("repeats", "word"), [(ReplayCount(shown=0, runs=0), "not tried"), (ReplayCount(shown=0, runs=10), "not confirmed")]
)
def test_not_tried_and_not_confirmed_are_different_words_everywhere(repeats: ReplayCount, word: str) -> None:
    other = {"not tried": "not confirmed", "not confirmed": "not tried"}[word]
    finding = replace(STRAY, repeats=repeats)
    contents = ReportContents(bugs=(bug(finding),))
    printed = render(finding, Sources()).plain
    assert (word.upper() in printed, other.upper() in printed) == (True, False)
    (line, _) = (text.plain for text in listed(contents))
    html = page(contents, datetime(2026, 1, 2, tzinfo=UTC))
    xml = junit(contents)
    document = to_json(finding_document(finding))
    assert f'name="confirmation" value="{word}"' in xml
    assert json.loads(document)["confirmation"] == word
    for text in (line, summary(contents), html, xml, document):
        assert (word in text.lower(), other in text.lower()) == (True, False)


def test_an_error_that_did_not_repeat_alone_is_a_warning() -> None:
    repeats = ReplayCount(shown=0, runs=10)
    severities = {
        "confirmed": replace(STRAY, confirmed=True).severity,
        "not tried": STRAY.severity,
        "flaky": replace(STRAY, confirmed=True, repeats=replace(repeats, shown=1)).severity,
        "not confirmed": replace(STRAY, repeats=repeats).severity,
    }
    assert severities.pop("not confirmed") is Severity.WARNING
    assert set(severities.values()) == {Severity.ERROR}
    assert render(replace(STRAY, repeats=repeats), Sources()).plain.startswith("WARNING  bounds")


def test_a_finding_and_its_symptoms_are_one_error_everywhere() -> None:
    contents = ReportContents(bugs=(bug(CAUSE),), campaigns=(), earlier=())
    first, second = (str(symptom.signature) for symptom in CAUSE.symptoms)
    text = render(CAUSE, Sources()).plain
    assert text.startswith("ERROR  write-overlap")
    assert f"same cause     error, {first} at a.py:7 (in 12 cases)" in text
    assert "idiom          rows of neighbours" in text
    assert summary(contents).startswith("### kernel-harness: 1 finding: 1 error")
    assert "(and 2 symptoms)" in summary(contents)
    (test,) = ET.fromstring(junit(contents)).iter("testcase")  # noqa: S314 - our own text
    assert [one.get("value") for one in test.iter("property") if one.get("name") == "symptom"] == [first, second]
    line, total = (text.plain for text in listed(contents))
    assert (line[:5], "2 symptoms" in line, total) == ("error", True, "1 finding: 1 error")
    html = page(contents, datetime(2026, 11, 25, tzinfo=UTC))
    assert "2 more failures" in html
    assert EVIL not in html


def test_a_former_finding_that_is_a_symptom_now_is_not_gone() -> None:
    before = ReportedCampaign(name="before", report=replace(REPORT, findings=(OVERLAP, VALUES)))
    (_, now) = stages(ReportContents(bugs=(bug(CAUSE),), earlier=(before,)))
    assert (now.new, now.still, now.gone) == ((), (CAUSE.fail.signature,), ())


SEARCHED = OpChecks(op=f"/elsewhere/{OP.portable_id}", device=GONE.case.device.slug, passed=3)


@pytest.mark.parametrize(
    ("rows", "kernels", "finding", "is_gone"),
    [
        ((SEARCHED,), (), GONE, True),
        ((replace(SEARCHED, device="another"),), (), GONE, False),
        ((replace(SEARCHED, op="suites/other.py:other"),), (), GONE, False),
        ((replace(SEARCHED, passed=0, abstained=3),), (), GONE, False),
        ((SEARCHED,), (OVERLAP.fail.signature.kernel,), OVERLAP, True),
        ((), (OVERLAP.fail.signature.kernel,), OVERLAP, True),
        ((SEARCHED,), (), OVERLAP, False),
    ],
)
def test_only_what_was_looked_for_is_gone(
    rows: tuple[OpChecks, ...], kernels: tuple[str, ...], finding: Finding, *, is_gone: bool
) -> None:
    before = ReportedCampaign(name="before", report=replace(REPORT, findings=(finding,)))
    search = ReportedCampaign(name="now", report=replace(REPORT, findings=(), kernels=kernels, op_checks=rows))
    (_, now) = stages(ReportContents(bugs=(), campaigns=(search,), earlier=(before,)))
    absent = (finding.fail.signature,)
    assert (now.gone, now.not_looked_at) == ((absent, ()) if is_gone else ((), absent))


def test_a_finding_that_was_gone_in_between_is_back() -> None:
    first, third = (ReportedCampaign(name=name, report=replace(REPORT, findings=(GONE,))) for name in "13")
    second = ReportedCampaign(name="2", report=replace(REPORT, findings=(), op_checks=(SEARCHED,)))
    contents = ReportContents(bugs=(bug(GONE),), earlier=(first, second, third, second))
    signature = GONE.fail.signature
    rows = stages(contents)
    assert [(row.new, row.back, row.gone) for row in rows] == [
        ((signature,), (), ()),
        ((), (), (signature,)),
        ((), (signature,), ()),
        ((), (), (signature,)),
        ((), (signature,), ()),
    ]
    text = summary(contents)
    assert "Compared with the previous report: 0 new, 1 back, 0 still, 0 gone.\n- back: " in text
    html = page(contents, datetime(2026, 11, 25, tzinfo=UTC))
    assert '<span class="tag back">back</span>' in html
    (result,) = json.loads(sarif(contents, Path()))["runs"][0]["results"]
    assert result["baselineState"] == "new"


def test_a_finding_that_was_not_looked_at_in_between_is_not_new() -> None:
    before = ReportedCampaign(name="before", report=replace(REPORT, findings=(GONE,)))
    between = ReportedCampaign(name="between", report=replace(REPORT, findings=()))
    (_, middle, now) = stages(ReportContents(bugs=(bug(GONE),), earlier=(before, between)))
    assert (middle.not_looked_at, now.new, now.still) == ((GONE.fail.signature,), (), (GONE.fail.signature,))


def test_many_symptoms_are_cut_in_a_terminal() -> None:
    many = replace(CAUSE, symptoms=CAUSE.symptoms * 10)
    assert f"and {20 - MOST_SYMPTOMS} more: see finding.json" in render(many, Sources()).plain


def test_the_list_has_a_line_for_each_bug_and_damaged_file() -> None:
    assert [line.plain for line in listed(GATHERED)] == [
        f"error   {VALUES.id}  float64-values: layer_norm d:x  (seen 9 times, flaky: 3 of 10 times alone)",
        f"error   {STRAY.id}  bounds: {EVIL} a|b.py:3  (seen 9 times, not tried)",
        f"warning {OVERLAP.id}  write-overlap: layer_norm_bwd_kernel layernorm.py:431  (seen 9 times, known: {LINK})",
        "not readable: broken/finding.json: not readable",
        "3 findings: 2 errors, 1 warning",
    ]


def test_the_summary_names_what_torch_computed_of_compiled_programs() -> None:
    rows = [
        OpChecks(op="s.py:product", device=device, passed=3, eager={"aten.mm": 2, "a graph break (print)": 1})
        for device in ("h200", "b200")
    ]
    assert list(eager_lines([*rows, OpChecks(op="s.py:norm", device="h200", passed=3)])) == [
        "not compiled: a graph break (print): product (2 cases)",
        "not compiled: aten.mm: product (4 cases)",
    ]
