"""Replay files come from anywhere: what is right is read, what is wrong is named, nothing is executed."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ReplayError
from harness.findings.campaign_report import FORMAT, finding_document
from harness.findings.replay import Recorded, parse, read
from harness.model.finding import Finding
from harness.oracles import registry
from harness.search.judge import Judge
from harness.wire import to_json
from tests.search.fakes import OP, facts, with_dims

pytestmark = pytest.mark.once

CASE = with_dims(T=3)
RUN = facts(CASE, lambda _: True)
FAIL = Judge(oracles=(registry.find("write-overlap"),)).judge(OP, RUN, {}).fails[0]
FINDING = Finding(
    fail=FAIL,
    case=CASE,
    launch=RUN.launches[0],
    first_case=with_dims(T=450),
    sightings=9,
    confirmed=True,
    libraries=("fla-core==0.5.2",),
)
RECORDED = Recorded(case=CASE, signature=FAIL.signature, libraries=("fla-core==0.5.2",))
DOCUMENT = finding_document(FINDING)


def changed(**fields: Any) -> str:
    return json.dumps({**DOCUMENT, **fields})


def case_with(**fields: Any) -> dict[str, Any]:
    return {**DOCUMENT["case"], **fields}


@pytest.mark.parametrize(
    ("text", "recorded"),
    [
        (json.dumps({"format": FORMAT, "findings": [DOCUMENT, DOCUMENT], "cases": 3}), (RECORDED, RECORDED)),
        (json.dumps({"findings": []}), ()),
        (json.dumps(DOCUMENT), (RECORDED,)),
        (json.dumps({"case": DOCUMENT["case"]}), (Recorded(case=CASE, signature=None),)),
        (to_json(CASE), (Recorded(case=CASE, signature=None),)),
        (json.dumps(finding_document(replace(FINDING, needs=CASE))), (replace(RECORDED, needs=CASE),)),
    ],
)
def test_reports_findings_and_cases_are_read(text: str, recorded: tuple[Recorded, ...]) -> None:
    assert parse(text) == recorded


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not readable as JSON"),
        ("\x80", "not readable as JSON"),
        ("[" * 100_000, "not readable as JSON"),
        ("[]", "neither a report"),
        ("3", "neither a report"),
        ("null", "neither a report"),
        ('{"hello": 1}', "neither a report"),
        ('{"findings": 3}', "neither a report"),
        ('{"findings": [3]}', "findings[1]: expected an object, got '3'"),
        ('{"findings": [{}]}', "findings[1]: missing 'case'"),
        ('{"format": "kernel-harness-findings/9", "findings": []}', "its format is 'kernel-harness-findings/9'"),
        (changed(case=3), "finding.case: not a Case: expected an object, got 3"),
        (changed(case=case_with(dims={"T": "3"})), "finding.case: not a Case: dims"),
        (changed(case=case_with(dtype="fp8")), "finding.case: not a Case: dtype"),
        (changed(case=case_with(code="import os")), "finding.case: not a Case: unknown field code"),
        (changed(severity="fatal"), "finding.severity: expected warning or error, got 'fatal'"),
        (changed(kernel=None), "finding.kernel: expected a string, got 'None'"),
        (changed(**{"with": "fla-core"}), "finding.with: expected a list of strings"),
        (changed(**{"with": [1]}), "finding.with: expected a list of strings"),
        (json.dumps({key: value for key, value in DOCUMENT.items() if key != "place"}), "finding: missing 'place'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(ReplayError) as caught:
        parse(text)
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 250


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (binary, tmp_path / "none.json", tmp_path):
        with pytest.raises(ReplayError, match=str(path)):
            read(path)
