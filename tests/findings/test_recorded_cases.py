"""Replay files come from anywhere: they are read strictly, and an error names the place."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.documents import files
from harness.documents.campaign import CampaignReport
from harness.documents.finding import CaseDocument, finding_document, regression_document
from harness.errors import ReplayError
from harness.findings.recorded_cases import Recorded, parse, read
from harness.model.finding import Finding
from harness.oracles import registry
from harness.search.judge import Judge
from tests.search.fakes import OP, facts, with_dims

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
AFTER_ANOTHER = replace(FINDING, preceding_case=CASE)
RECORDED = Recorded(case=CASE, signature=FAIL.signature, libraries=("fla-core==0.5.2",))
BARE = Recorded(case=CASE, signature=None)
DOCUMENT: dict[str, Any] = json.loads(files.dumps(finding_document(FINDING)))
HANDWRITTEN = {
    "kind": "regression",
    **{key: DOCUMENT[key] for key in ("schema_version", "oracle", "severity", "op", "kernel", "place", "case")},
    "libraries": ["fla-core==0.5.2"],
}
"""As a person may write it: with the keys that a replay needs."""
BARE_DOCUMENT = {"kind": "case", "schema_version": 2, "case": DOCUMENT["case"]}
FOREIGN = "not a document of the harness: expected an object whose `kind` is campaign, shard, finding"


def report(*findings: Finding) -> CampaignReport:
    return CampaignReport(
        findings=findings,
        cases=3,
        passed=1,
        failed=2,
        abstained=0,
        abstain_reasons={},
        seconds=1.0,
        seed=0,
        devices=(),
        versions={},
    )


def changed(**fields: Any) -> str:
    return json.dumps({**DOCUMENT, **fields})


def case_with(**fields: Any) -> dict[str, Any]:
    return {**DOCUMENT["case"], **fields}


CASE_OBJECT: dict[str, Any] = DOCUMENT["case"]


def with_sms(count: int) -> dict[str, Any]:
    return {**CASE_OBJECT["device"], "sm_count": count}


@pytest.mark.parametrize(
    ("text", "recorded"),
    [
        (files.dumps(report(FINDING, FINDING)), (RECORDED, RECORDED)),
        (files.dumps(report()), ()),
        (json.dumps(DOCUMENT), (RECORDED,)),
        (json.dumps(BARE_DOCUMENT), (BARE,)),
        (json.dumps({**BARE_DOCUMENT, "libraries": ["x==1"]}), (replace(BARE, libraries=("x==1",)),)),
        (files.dumps(CaseDocument(case=CASE)), (BARE,)),
        (json.dumps(HANDWRITTEN), (RECORDED,)),
        (files.dumps(regression_document(FINDING, ("x==1",))), (replace(RECORDED, libraries=("x==1",)),)),
        (files.dumps(finding_document(AFTER_ANOTHER)), (replace(RECORDED, preceding_case=CASE),)),
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
        ("[]", FOREIGN),
        ("3", FOREIGN),
        ("null", FOREIGN),
        ('{"hello": 1}', FOREIGN),
        ('{"kind": "region", "schema_version": 2}', "a document of kind 'region'; expected campaign, shard, finding"),
        ('{"kind": "campaign", "schema_version": 2, "findings": 3}', "findings: expected a list, got 3"),
        ('{"kind": "campaign", "schema_version": 2, "findings": [3]}', "findings[0]: expected an object, got 3"),
        ('{"kind": "campaign", "schema_version": 2, "findings": [{}]}', "findings[0].oracle: missing"),
        ('{"format": "kernel-harness-findings/9", "findings": []}', FOREIGN),
        (changed(schema_version=9), "its schema_version is 9, and this release reads 2"),
        (changed(case=3), "case: expected an object, got 3"),
        (changed(case=case_with(dims={"T": "3"})), 'case.dims.T: expected an integer, got "3"'),
        (changed(case=case_with(dims={"T": 10**15})), "case.dims.T: expected 0 to 4294967296, got 1000000000000000"),
        (changed(case=case_with(dims={"T": -1})), "case.dims.T: expected 0 to 4294967296, got -1"),
        (changed(case=case_with(device=with_sms(-3))), "case.device.sm_count: expected at least 1, got -3"),
        (changed(case={key: value for key, value in CASE_OBJECT.items() if key != "dims"}), "case.dims: missing"),
        (changed(case=case_with(dtype="fp8")), "case.dtype: expected one of fp32, bf16, fp16"),
        (changed(case=case_with(code="import os")), "case: unknown field code"),
        (changed(severity="fatal"), 'severity: expected one of warning, error, got "fatal"'),
        (changed(kernel=None), "kernel: expected a string, got null"),
        (changed(libraries="fla-core"), 'libraries: expected a list, got "fla-core"'),
        (changed(libraries=[1]), "libraries[0]: expected a string, got 1"),
        (json.dumps({**HANDWRITTEN, "libraries": [1]}), "libraries[0]: expected a string, got 1"),
        (json.dumps({**HANDWRITTEN, "with": ["x==1"]}), "unknown field with"),
        (json.dumps({key: value for key, value in DOCUMENT.items() if key != "place"}), "place: missing"),
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
