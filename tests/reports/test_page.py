"""The page has every finding and loads nothing, as Python's HTML parser reads it."""

import base64
import hashlib
import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from harness.reports.checkout import Checkout
from harness.reports.contents import ReportContents, ReportedBug
from harness.reports.html.page import page, pages
from harness.reports.oracle_pages import page_of
from harness.reports.report_history import stages
from tests.reports.samples import EVIL, GONE, LINK, MISCOMPILED, MISSING, OVERLAP, STRAY, VALUES, with_missing

CHECKOUT = Checkout(repository=LINK, commit="0123456789abcdef", date="2030-01-01", is_changed=True)
NOW = datetime(2030, 1, 2, 3, 4, tzinfo=UTC)
VOID = {"meta", "link", "br", "hr", "img", "input", "wbr"}


class Parsed(HTMLParser):
    """Elements, their attributes and the text; every element must be closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags = Counter[str]()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.anchors: list[str] = []
        self.said = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), f"{tag} has {name}"
            match name:
                case "id":
                    self.ids.append(value or "")
                case "href" if (value or "").startswith("#"):
                    self.anchors.append((value or "")[1:])
                case "href" | "src" | "xlink:href" | "srcset" | "action":
                    self.addresses.append(value or "")
                case _:
                    assert "url(" not in (value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said += data


def test_a_report_has_each_bug_once_errors_first_known_last(whole: ReportContents) -> None:
    assert [bug.finding.id for bug in whole.bugs] == [VALUES.id, STRAY.id, OVERLAP.id]
    assert [bug.link for bug in whole.bugs] == ["", "", LINK]
    assert [len(bug.files) for bug in whole.bugs] == [0, 0, 1]
    (complaint,) = whole.damaged
    assert "broken/finding.json: not readable as JSON" in complaint


def test_new_still_present_and_gone_findings_are_listed(whole: ReportContents) -> None:
    older, here = stages(whole)
    assert (len(older.new), older.gone) == (2, ())
    assert set(here.new) == {VALUES.fail.signature, STRAY.fail.signature}
    assert (here.still, here.not_looked_at) == ((OVERLAP.fail.signature,), (GONE.fail.signature,))
    assert (here.cases, here.rate, here.errors) == (60, 4.8, 2)


def test_the_page_has_every_finding_and_escapes_all_text(whole: ReportContents) -> None:
    text = page(whole, NOW)
    parsed = Parsed(text)
    for finding in (OVERLAP, VALUES, STRAY):
        assert f"finding-{finding.id}" in parsed.ids
        assert finding.fail.message in parsed.said
        assert f"harness replay {finding.id}" in parsed.said
    assert text.count("<script") == 1
    assert parsed.said.count(EVIL) >= 6
    assert "print('again')" in parsed.said
    assert "3 of 10 runs alone; the failure rate is between 11 and 60 %" in parsed.said
    assert "5 of 5 runs alone; the failure rate is between 57 and 100 %" in parsed.said
    assert "broken/finding.json: not readable as JSON" in parsed.said
    assert "is it fixed?" in parsed.said
    assert "every case with G > 1: 9 of 9; none of 22 others" in parsed.said
    assert "avoided 120 draws of layer_norm" in parsed.said
    assert "set aside other on b200" in parsed.said
    assert "executed 7 of 12 lines of kernels (58%), in 3 of 4 functions" in parsed.said
    assert "31-33" not in parsed.said, "of a function that no launch executed at all"
    assert "4 its backend is eager" in parsed.said
    assert "follows no simple rule: of the sizes tried, 4 fail and 2 pass" in parsed.said


def test_the_page_says_who_is_at_fault_on_hardware() -> None:
    blamed = replace(OVERLAP, hardware_blame=MISCOMPILED)
    parsed = Parsed(page(ReportContents(bugs=(ReportedBug(finding=blamed),)), NOW))
    assert MISCOMPILED.verdict in parsed.said
    assert "; ".join(MISCOMPILED.evidence) in parsed.said


def test_the_page_loads_nothing_and_its_links_resolve(whole: ReportContents) -> None:
    parsed = Parsed(page(whole, NOW))
    assert set(parsed.addresses) == {"data:,", LINK}
    assert set(parsed.anchors) <= set(parsed.ids)
    assert len(set(parsed.ids)) == len(parsed.ids)
    assert parsed.tags["main"] == parsed.tags["h1"] == parsed.tags["header"] == 1
    assert parsed.tags["svg"] == parsed.tags["desc"]


def test_only_the_script_of_the_page_may_run(whole: ReportContents) -> None:
    text = page(whole, NOW)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{allowed}'" in text
    assert EVIL not in script


def test_the_page_offers_only_filters_that_tell_findings_apart(whole: ReportContents) -> None:
    offered = re.findall(r'<select name="(\w+)">', page(whole, NOW))
    assert offered == ["severity", "oracle", "state"]


def test_commands_to_run_next_leave_out_what_was_done(whole: ReportContents) -> None:
    said = Parsed(page(whole, NOW)).said
    assert f"harness region {VALUES.id}" in said
    assert f"harness repro {VALUES.id}" in said
    assert f"harness region {OVERLAP.id}" not in said
    assert f"harness repro {OVERLAP.id}" not in said


def test_what_did_not_report_is_named_first(whole: ReportContents) -> None:
    assert "Did not report" not in Parsed(page(whole, NOW)).said
    assert f"Did not report: {MISSING}." in Parsed(page(with_missing(whole), NOW)).said


def test_the_style_sheet_loads_nothing(whole: ReportContents) -> None:
    assert re.findall(r"url\(|@import", page(whole, NOW)) == []


def test_the_picture_of_the_first_case_names_its_blocks(whole: ReportContents) -> None:
    said = Parsed(page(whole, NOW)).said
    assert "dx [450, 64]: stored by more than one program; each block is 19 x 2 cells" in said
    assert "rows 437 to 449, columns 62 to 63: 100 % of the cells" in said
    assert "row 5, column 3: 4e+05 tolerances" in said
    assert "row 5, column 4: NaN or infinite" in said
    assert "elements 40 to 47 was touched" in said


def test_the_grid_counts_what_was_not_run(whole: ReportContents) -> None:
    text = page(whole, NOW)
    assert 'title="bounds: 2 failed, 20 passed, 3 not run"' in text
    assert 'title="float64-values: 5 abstained, 20 not run"' in text
    assert 'title="bounds: not run"' in text


def test_an_invalid_link_is_shown_as_text(whole: ReportContents) -> None:
    bugs = tuple(replace(bug, link="javascript:alert(1)") for bug in whole.bugs)
    parsed = Parsed(page(replace(whole, bugs=bugs), NOW))
    assert set(parsed.addresses) == {"data:,"}
    assert "javascript:alert(1)" in parsed.said


def test_a_page_without_findings_says_so() -> None:
    parsed = Parsed(page(ReportContents(bugs=()), NOW))
    assert "No findings" in parsed.said
    assert "2030-01-02 03:04 UTC" in parsed.said
    assert parsed.tags["svg"] == 0


def test_the_top_names_repository_commit_and_date(whole: ReportContents) -> None:
    said = " ".join(Parsed(page(whole, NOW, CHECKOUT)).said.split())
    assert f"Repository {LINK}, commit 0123456789ab of 2030-01-01, with changes that are not committed." in said
    assert "Repository" not in Parsed(page(whole, NOW)).said


def test_each_row_says_whether_its_finding_is_new(whole: ReportContents) -> None:
    text = page(whole, NOW)
    rows = re.findall(r'<tr data-finding="finding-(\w+)".*?</tr>', text, re.DOTALL)
    marks = re.findall(r'<tr data-finding=.*?<span class="tag (new|still)">', text, re.DOTALL)
    assert list(zip(rows, marks, strict=True)) == [(VALUES.id, "new"), (STRAY.id, "new"), (OVERLAP.id, "still")]
    alone = page(replace(whole, earlier=()), NOW)
    assert 'class="tag new"' not in alone


def test_each_finding_leads_to_the_promise_of_its_oracle(whole: ReportContents) -> None:
    read = Parsed(page(whole, NOW))
    oracles = {"write-overlap", "float64-values", "bounds"}
    assert {name for name in read.ids if name.startswith("oracle-")} == {f"oracle-{oracle}" for oracle in oracles}
    assert oracles == {name.removeprefix("oracle-") for name in read.anchors if name.startswith("oracle-")}
    said = " ".join(read.said.split())
    assert page_of("bounds").promise in said
    signature = replace(STRAY.fail.signature, oracle="new")
    of_other_release = ReportedBug(finding=replace(STRAY, fail=replace(STRAY.fail, signature=signature)))
    assert "oracle-new" not in page(ReportContents(bugs=(of_other_release,)), NOW)


def test_oracles_without_a_verdict_are_named_below_the_grid(whole: ReportContents) -> None:
    said = " ".join(Parsed(page(whole, NOW)).said.split())
    assert "Oracles that only abstained 1 oracle" in said
    assert re.search(r"Not run: .*write-overlap", said)


def test_many_findings_are_shared_by_pages_that_name_each_other(
    whole: ReportContents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.reports.html.page.MOST_ON_A_PAGE", 1)
    count = len(whole.bugs)
    written = dict(pages(whole, NOW, file="build/report.html"))
    names = ["report.html", *(f"report-{number}.html" for number in range(2, count + 1))]
    assert list(written) == [f"build/{name}" for name in names]
    for text, bug in zip(written.values(), whole.bugs, strict=True):
        assert re.findall(r'<li><a href="(report[^"]*)"', text) == names
        assert re.findall(r'<tr data-finding="finding-(\w+)"', text) == [bug.finding.id]
    monkeypatch.setattr("harness.reports.html.page.MOST_ON_A_PAGE", count)
    assert [name for name, _ in pages(whole, NOW)] == ["report.html"]
