"""Files that searches, maps and surveys have left are read with everything in them."""

from datetime import date
from pathlib import Path

import pytest

from harness.documents import files
from harness.documents.campaign import CampaignReport, KnownFinding, SizeCount, VerdictCount
from harness.documents.finding import FindingDocument, RegionDocument, RegressionDocument
from harness.errors import ReplayError
from harness.findings import recorded_cases
from harness.model.region import SMS, Ended
from harness.model.verdict import Outcome, Severity, Signature
from studies.corpus import results
from studies.mutation import score
from tests.studies.corpus.test_results import KEPT
from tests.studies.mutation.test_score import KILLED, SURVIVED

FOLDER = Path(__file__).parent / "recorded"
REGRESSIONS = Path(__file__).parents[2] / "suites" / "regressions"
OVERLAP = Signature(
    oracle="write-overlap", severity=Severity.WARNING, op="", kernel="double_kernel", place="overlapping_store.py:14"
)


def test_a_finding_keeps_its_id_signature_and_pictures() -> None:
    document = files.read(FOLDER / "finding.json", FindingDocument)
    finding = document.finding
    assert (finding.id, document.id, finding.fail.signature) == ("ba1d6655", "ba1d6655", OVERLAP)
    assert document.versions["triton"] == "3.6.0"
    assert finding.repeats.runs == finding.repeats.shown == 5
    (picture,) = finding.first_pictures
    assert picture.caption == "stored by more than one program"
    assert finding.replay_command == document.replay == "harness replay ba1d6655"


def test_a_regression_is_replayed_under_its_id() -> None:
    (recorded,) = recorded_cases.read(FOLDER / "regression.json")
    assert (recorded.id, recorded.libraries, recorded.preceding_case) == ("642088d2", ("fla-core==0.6.0",), None)


@pytest.mark.parametrize("path", sorted(REGRESSIONS.glob("*.json")), ids=lambda path: path.stem)
def test_every_regression_of_the_repository_has_the_id_of_its_file(path: Path) -> None:
    (recorded,) = recorded_cases.read(path)
    assert recorded.id == path.stem


def test_a_campaign_keeps_findings_counts_and_known_issues() -> None:
    report = files.read(FOLDER / "campaign.json", CampaignReport)
    assert [finding.id for finding in report.findings] == ["cdaed9f2", "ba1d6655"]
    assert (report.cases, report.builds, report.compiled_builds, report.seed) == (204, 155, 155, 0)
    op = "suites/planted/overlapping_store.py:overlapping_store"
    assert report.verdicts[0] == VerdictCount(
        op=op, device="a100", oracle="agreement", outcome=Outcome.ABSTAIN, cases=1
    )
    assert report.tested_sizes[0] == SizeCount(op=op, dim="T", size=48, sm_count=108, outcome=Outcome.FAIL, cases=1)
    assert report.known_findings == (
        KnownFinding(
            finding="ba1d6655", signature=str(OVERLAP), link="https://example.org/1", expires=date(2027, 3, 31)
        ),
    )
    assert report.gpu_wait_share is None


def test_a_region_keeps_its_points_and_why_it_ended() -> None:
    region = files.read(FOLDER / "region.json", RegionDocument).region
    assert (region.finding, region.signature, region.stop_reason) == ("ba1d6655", OVERLAP, Ended.POINTS)
    assert all(set(point.sizes) >= {SMS} for point in region.points)


def test_results_of_the_corpus_and_of_mutants_are_kept() -> None:
    assert results.load(FOLDER / "corpus.json").records == (KEPT,)
    assert score.load(FOLDER / "mutation.json", "seed 0").outcomes == (KILLED, SURVIVED)


@pytest.mark.parametrize("name", ["finding", "regression", "campaign"])
def test_a_recorded_document_is_written_and_read_back_whole(name: str) -> None:
    kinds = (CampaignReport, FindingDocument, RegressionDocument)
    document = files.read(FOLDER / f"{name}.json", *kinds)
    text = files.dumps(document)
    assert files.loads(text, *kinds) == document
    assert text == (FOLDER / f"{name}.json").read_text(encoding="utf-8")


def test_an_error_in_a_file_names_the_file_and_the_place(tmp_path: Path) -> None:
    text = (FOLDER / "campaign.json").read_text(encoding="utf-8").replace('"shown": 5', '"shown": "5"', 1)
    (tmp_path / "report.json").write_text(text, encoding="utf-8")
    with pytest.raises(ReplayError) as refused:
        recorded_cases.read(tmp_path / "report.json")
    place = 'findings[0].repeats.shown: expected an integer, got "5"'
    assert str(refused.value) == f"{tmp_path / 'report.json'}: {place}"
