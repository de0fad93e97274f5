"""SARIF is valid by its schema, and code scanning finds each result at a line of the repository."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from sarif_kit.validate import validation_errors

from harness.model.finding import Excerpt, Finding
from harness.model.run import Source
from harness.reports.contents import ReportContents, ReportedBug
from harness.reports.sarif import sarif
from tests.reports.samples import CAUSE, EVIL, LINK, MISSING, OVERLAP, STRAY, VALUES, with_missing

PROJECT = Path("/project")


def log_of(contents: ReportContents, project: Path = PROJECT) -> dict[str, Any]:
    """Return the document, which is valid."""
    log: dict[str, Any] = json.loads(sarif(contents, project))
    assert validation_errors(log) == []
    return log


def results_of(contents: ReportContents, project: Path = PROJECT) -> list[Any]:
    return log_of(contents, project)["runs"][0]["results"]


def result_of(finding: Finding, project: Path = PROJECT) -> Any:
    (result,) = results_of(ReportContents(bugs=(ReportedBug(finding=finding),)), project)
    return result


def place_of(finding: Finding, project: Path = PROJECT) -> tuple[str, int]:
    place = result_of(finding, project)["locations"][0]["physicalLocation"]
    return place["artifactLocation"]["uri"], place["region"]["startLine"]


def test_a_wrong_document_is_not_valid() -> None:
    log = log_of(ReportContents(bugs=(ReportedBug(finding=OVERLAP),)))
    log["runs"][0]["results"][0]["level"] = "fatal"
    assert validation_errors(log) != []


def test_a_report_has_a_result_and_a_rule_for_each_finding(whole: ReportContents) -> None:
    (run,) = log_of(whole)["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["float64-values", "bounds", "write-overlap"]
    assert [(one["ruleIndex"], one["level"]) for one in run["results"]] == [(0, "error"), (1, "error"), (2, "warning")]
    assert [one.get("baselineState") for one in run["results"]] == ["new", "new", "unchanged"]


def test_a_known_finding_is_suppressed_with_its_link(whole: ReportContents) -> None:
    *others, known = results_of(whole)
    assert known["suppressions"] == [{"kind": "external", "status": "accepted", "justification": LINK}]
    assert not any("suppressions" in one for one in others)


def test_unreadable_files_are_notifications(whole: ReportContents) -> None:
    (run,) = log_of(whole)["runs"]
    lines = [one["message"]["text"] for one in run["invocations"][0]["toolExecutionNotifications"]]
    assert any("broken/finding.json" in line for line in lines)


def test_a_missing_shard_is_no_success(whole: ReportContents) -> None:
    assert log_of(whole)["runs"][0]["invocations"][0]["executionSuccessful"] is True
    (invocation,) = log_of(with_missing(whole))["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["toolExecutionNotifications"][0]["message"]["text"] == f"{MISSING} did not report"


def test_a_library_is_named_below_its_folder_of_packages() -> None:
    assert place_of(OVERLAP) == ("fla/modules/layernorm.py", 431)
    place = result_of(OVERLAP)["locations"][0]["physicalLocation"]
    assert place["region"]["snippet"] == {"text": "        tl.store(p, x)"}
    assert (place["contextRegion"]["startLine"], place["contextRegion"]["endLine"]) == (429, 432)


def test_a_file_of_the_repository_is_named_below_its_root() -> None:
    own = with_source("/project/src/my kernels/norm.py")
    assert place_of(own) == ("src/my%20kernels/norm.py", 431)
    installed = with_source("/project/.venv/lib/python3.11/site-packages/fla/modules/layernorm.py")
    assert place_of(installed) == ("fla/modules/layernorm.py", 431)


def with_source(file: str) -> Finding:
    excerpt = Excerpt(file="fla/modules/layernorm.py", first=431, lines=("x",))
    return replace(OVERLAP, fail=replace(OVERLAP.fail, source=Source(file=file, line=431)), excerpt=excerpt)


def test_a_finding_without_a_line_is_at_its_op(tmp_path: Path) -> None:
    suite = tmp_path / "suites" / "fla" / "norm.py"
    suite.parent.mkdir(parents=True)
    suite.write_text("import harness\n\n\ndef layer_norm_more(): ...\ndef layer_norm(x): ...\n", encoding="utf-8")
    assert place_of(VALUES, tmp_path) == ("suites/fla/norm.py", 5)
    assert place_of(VALUES) == ("suites/fla/norm.py", 1)


def test_fingerprints_differ_between_bugs_and_not_between_cases() -> None:
    smaller = replace(OVERLAP, case=replace(OVERLAP.case, dims={"T": 2, "D": 1, "G": 1}))
    prints = [result_of(one)["partialFingerprints"] for one in (OVERLAP, smaller, VALUES, STRAY)]
    assert prints[0] == prints[1]
    assert len({one["kernelHarnessSignature/v2"] for one in prints}) == 3
    assert "primaryLocationLineHash" not in prints[0], "the host computes it from the file"


def test_text_of_a_finding_stays_text() -> None:
    result = result_of(STRAY)
    assert EVIL in result["message"]["text"]
    assert "<" not in result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert result_of(CAUSE)["properties"]["symptoms"][0] == "float64-values: layer_norm d:x"
