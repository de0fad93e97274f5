"""A campaign report is read back whole, and errors in it are named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.documents import files
from harness.documents.campaign import CampaignReport
from harness.errors import ReplayError
from harness.reports.summary import summary
from tests.reports.samples import EVIL, REPORT

DOCUMENT: dict[str, Any] = json.loads(files.dumps(REPORT))


def changed(**fields: Any) -> str:
    return json.dumps({**DOCUMENT, **fields})


def test_a_report_is_read_back_whole() -> None:
    assert files.loads(json.dumps(DOCUMENT), CampaignReport) == REPORT
    waited = replace(REPORT, gpu_wait_share=0.25)
    assert files.loads(files.dumps(waited), CampaignReport) == waited


def test_a_report_says_what_was_avoided_and_set_aside() -> None:
    lines = list(summary(REPORT))
    assert (
        f"avoided 120 draws of layer_norm with mode = {EVIL}: 31 of 31 such cases ended early, without results" in lines
    )
    assert "set aside other on b200: none of 25 cases completed; 7 of its batches went to others" in lines


def test_the_counts_of_a_summary_add_up() -> None:
    reasons = {f"reason {count}": count for count in range(1, 8)}
    lines = list(summary(replace(REPORT, cases=60, abstained=28, abstain_reasons=reasons)))
    assert lines[:7] == [
        "28 of 60 cases could not be checked:",
        *(f"  {count:>5}  reason {count}" for count in range(7, 2, -1)),
        "      3  for 2 more reasons",
    ]
    doubled = list(summary(replace(REPORT, cases=60, abstained=7, abstain_reasons=reasons)))
    assert doubled[0] == "7 of 60 cases could not be checked (some for several reasons):"


def test_a_single_case_is_one_case() -> None:
    lines = list(summary(replace(REPORT, cases=1, passed=1, failed=0, abstained=0, abstain_reasons={})))
    assert any(line.startswith("ran 1 case on ") for line in lines)


def test_a_report_says_how_long_gpus_waited_for_the_compiler_if_known() -> None:
    line = "the GPUs waited for the compiler 25% of the time"
    assert line in list(summary(replace(REPORT, gpu_wait_share=0.25)))
    assert line.split("25", maxsplit=1)[0] not in "\n".join(summary(REPORT))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not readable as JSON"),
        ("[" * 100_000, "not readable as JSON"),
        ("{}", "expected an object whose `kind` is campaign"),
        (json.dumps(DOCUMENT["findings"][0]), "a document of kind 'finding'; expected campaign"),
        (json.dumps({"format": "kernel-harness-findings/9"}), "expected an object whose `kind` is campaign"),
        (changed(schema_version=9), "its schema_version is 9"),
        (changed(cases="many"), "cases: expected an integer"),
        (changed(surprise=1), "unknown field surprise"),
        (changed(verdicts=[{**DOCUMENT["verdicts"][0], "outcome": "perhaps"}]), "verdicts[0].outcome"),
        (changed(tested_sizes=[{**DOCUMENT["tested_sizes"][0], "sm_count": "many"}]), "tested_sizes[0].sm_count"),
        (changed(findings=[3]), "findings[0]: expected an object"),
        (
            changed(known_findings=[{**DOCUMENT["known_findings"][0], "expires": "soon"}]),
            'a date such as 2027-03-31, got "soon"',
        ),
        (changed(libraries=[3]), "libraries[0]: expected a string"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    with pytest.raises(ReplayError) as caught:
        files.loads(text, CampaignReport)
    assert said in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_bytes(b"\xff")
    for path in (tmp_path / "bad.json", tmp_path / "none.json"):
        with pytest.raises(ReplayError, match=path.name):
            files.read(path, CampaignReport)


@pytest.mark.parametrize("key", ["pictures", "first_pictures", "excerpt"])
def test_pictures_and_excerpts_may_be_missing(key: str) -> None:
    (first, *rest) = DOCUMENT["findings"]
    plainer = {name: value for name, value in first.items() if name != key}
    read = files.loads(changed(findings=[plainer, *rest]), CampaignReport)
    assert read.findings[0].id == REPORT.findings[0].id
    assert read.findings != REPORT.findings


def test_a_picture_of_another_kind_is_refused() -> None:
    (first, *rest) = DOCUMENT["findings"]
    with pytest.raises(ReplayError, match=r"findings\[0\]\.pictures\[0\]: .*type"):
        files.loads(changed(findings=[{**first, "pictures": [{"type": "Painting"}]}, *rest]), CampaignReport)
