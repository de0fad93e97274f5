"""A campaign's report is read back whole, and what is wrong with one is named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ReplayError
from harness.findings.campaign_report import report_document
from harness.findings.campaigns import parse_campaign, read_campaign
from harness.reports.summary import summary
from tests.reports.samples import REPORT

pytestmark = pytest.mark.once

DOCUMENT = report_document(REPORT)


def changed(**fields: Any) -> str:
    return json.dumps({**DOCUMENT, **fields})


def test_a_report_is_read_back_whole() -> None:
    assert parse_campaign(json.dumps(DOCUMENT)) == REPORT
    waited = replace(REPORT, waiting=0.25)
    assert parse_campaign(json.dumps(report_document(waited))) == waited


def test_a_report_tells_how_long_gpus_waited_for_the_compiler_where_that_is_known() -> None:
    line = "the GPUs waited for the compiler 25% of the time"
    assert line in list(summary(replace(REPORT, waiting=0.25)))
    assert line.split("25", maxsplit=1)[0] not in "\n".join(summary(REPORT))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not readable as JSON"),
        ("[" * 100_000, "not readable as JSON"),
        ("{}", "no report of a campaign"),
        (json.dumps(DOCUMENT["findings"][0]), "no report of a campaign"),
        (changed(format="kernel-harness-findings/9"), "its format is 'kernel-harness-findings/9'"),
        (changed(cases="many"), "cases: expected an integer"),
        (changed(surprise=1), "unknown field surprise"),
        (changed(verdicts=[["op", "h200", "bounds", "perhaps", 1]]), "verdicts"),
        (changed(area=[["op", "T", 1, "many", "pass", 1]]), "area"),
        (changed(findings=[3]), "findings[1]: no finding"),
        (changed(known=[{**DOCUMENT["known"][0], "expires": "soon"}]), "known: 'soon' is no date"),
        (changed(**{"with": [3]}), "expected a string"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    with pytest.raises(ReplayError) as caught:
        parse_campaign(text)
    assert said in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_bytes(b"\xff")
    for path in (tmp_path / "bad.json", tmp_path / "none.json"):
        with pytest.raises(ReplayError, match=path.name):
            read_campaign(path)


@pytest.mark.parametrize("key", ["pictures", "first_pictures", "excerpt"])
def test_findings_of_older_reports_have_no_pictures(key: str) -> None:
    (first, *rest) = DOCUMENT["findings"]
    older = {name: value for name, value in first.items() if name != key}
    read = parse_campaign(changed(findings=[older, *rest]))
    assert read.findings[0].id == REPORT.findings[0].id
    assert read.findings != REPORT.findings


def test_a_picture_of_another_kind_is_refused() -> None:
    (first, *rest) = DOCUMENT["findings"]
    with pytest.raises(ReplayError, match=r"finding\.pictures: .*type"):
        parse_campaign(changed(findings=[{**first, "pictures": [{"type": "Painting"}]}, *rest]))
