"""A document is read back as it was written, and an error names the exact place."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.documents import files
from harness.documents.campaign import CampaignReport
from harness.documents.finding import (
    FindingDocument,
    RegionDocument,
    RegressionDocument,
    finding_document,
    regression_document,
)
from harness.errors import ReplayError
from harness.findings.region.record import region_document
from tests.reports.samples import CAUSE, OVERLAP, REGION, REPORT, STRAY, VALUES


@pytest.mark.parametrize("finding", [OVERLAP, VALUES, STRAY, CAUSE], ids=lambda finding: finding.id)
def test_a_finding_is_read_back_whole(finding: Any) -> None:
    text = files.dumps(finding_document(finding, {"triton": "3.6.0"}))
    document = files.loads(text, FindingDocument)
    assert (document.finding, document.versions) == (finding, {"triton": "3.6.0"})


def test_a_finding_of_an_op_keeps_its_name_whatever_folder_its_suite_is_in() -> None:
    signature = replace(OVERLAP.fail.signature, op="norm.py:rms_norm", kernel="", place="y")
    case = replace(OVERLAP.case, op="checks/gpu/norm.py:rms_norm")
    finding = replace(OVERLAP, case=case, fail=replace(OVERLAP.fail, signature=signature))
    assert finding_document(finding).finding == finding


def test_a_report_and_a_region_are_read_back_whole() -> None:
    assert files.loads(files.dumps(REPORT), CampaignReport) == REPORT
    assert files.loads(files.dumps(region_document(REGION)), RegionDocument).region == REGION


def test_a_regression_has_no_pictures_and_no_paths() -> None:
    document = regression_document(OVERLAP, ("fla-core==0.6.0",))
    assert files.loads(files.dumps(document), RegressionDocument) == document
    assert set(json.loads(files.dumps(document))) == {
        *("kind", "schema_version", "id", "oracle", "severity", "kernel", "op", "place", "signature", "message"),
        *("libraries", "case", "preceding_case", "symptoms"),
    }


def test_a_regression_of_a_kernel_test_keeps_its_import_paths() -> None:
    document = regression_document(replace(OVERLAP, import_paths=("src",)), ())
    assert document.import_paths == ("src",)
    assert files.loads(files.dumps(document), RegressionDocument) == document


def test_the_symptoms_of_a_regression_have_no_paths() -> None:
    document = regression_document(CAUSE, ())
    assert [(one.signature, one.source) for one in document.symptoms] == [
        (one.signature, None) for one in CAUSE.symptoms
    ]


def test_keys_keep_field_order_and_short_values_share_a_line() -> None:
    lines = files.dumps(finding_document(OVERLAP)).splitlines()
    assert lines[:4] == ["{", '  "kind": "finding",', '  "schema_version": 2,', f'  "id": "{OVERLAP.id}",']
    assert '    "dims": {"T": 3, "D": 1, "G": 1},' in lines
    assert '      "capability": [12, 0],' in lines


BREAKS: list[tuple[Callable[[Any], object], str]] = [
    (
        lambda report: report["findings"][2]["case"]["dims"].update(T="x"),
        'findings[2].case.dims.T: expected an integer, got "x"',
    ),
    (lambda report: report["findings"][1].update(severity="fatal"), "findings[1].severity: expected one of warning, "),
    (lambda report: report["findings"][0].pop("place"), "findings[0].place: missing"),
    (lambda report: report["findings"][0].update(surprise=1), "findings[0]: unknown field surprise"),
    (lambda report: report["findings"].append(3), "findings[3]: expected an object, got 3"),
    (
        lambda report: report["verdicts"][1].update(outcome="perhaps"),
        'verdicts[1].outcome: expected one of pass, fail, abstain, got "perhaps"',
    ),
    (
        lambda report: report["known_findings"][0].update(expires="soon"),
        'known_findings[0].expires: expected a date such as 2027-03-31, got "soon"',
    ),
    (
        lambda report: report["findings"][0].update(pictures=[{"type": "Painting"}]),
        "findings[0].pictures[0]: expected a 'type' among Shading, Span, got \"Painting\"",
    ),
]


@pytest.mark.parametrize(("harm", "message"), BREAKS, ids=[message.partition(":")[0] for _, message in BREAKS])
def test_an_error_names_the_exact_place(harm: Callable[[Any], object], message: str) -> None:
    plain = json.loads(files.dumps(REPORT))
    harm(plain)
    with pytest.raises(ReplayError) as refused:
        files.loads(json.dumps(plain), CampaignReport)
    assert str(refused.value).startswith(message)


FOREIGN = "not a document of the harness: expected an object whose `kind` is region"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not readable as JSON"),
        ("[]", FOREIGN),
        ('{"kind": "region"}', "schema_version: missing"),
        ('{"kind": "finding", "schema_version": 2}', "a document of kind 'finding'; expected region"),
        ('{"kind": ["region"], "schema_version": 2}', "a document of kind ['region']; expected region"),
        ('{"format": ["kernel-harness-region/1"]}', FOREIGN),
        ('{"kind": "region", "schema_version": 1}', "its schema_version is 1, and this release reads 2"),
        ('{"kind": "region", "schema_version": 3}', "its schema_version is 3, and this release reads 2"),
        ('{"kind": "region", "schema_version": "2"}', "its schema_version is '2', and this release reads 2"),
        ('{"kind": "region", "schema_version": 2}', "region: missing"),
        ('{"format": "kernel-harness-region/9"}', FOREIGN),
    ],
)
def test_a_document_of_another_kind_or_version_is_refused(text: str, message: str) -> None:
    with pytest.raises(ReplayError) as refused:
        files.loads(text, RegionDocument)
    assert str(refused.value).startswith(message)
