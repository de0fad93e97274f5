"""Findings are folders that merge by copying; damaged ones are named, and the rest is read."""

import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.findings.recorded_cases import read
from harness.findings.store import load, locate, save
from harness.model.finding import Finding, ReplayCount
from tests.findings.test_recorded_cases import CASE, DOCUMENT, FAIL, FINDING, RECORDED
from tests.search.fakes import with_dims

VERSIONS = {"triton": "3.6.0"}
REPEATED = replace(FINDING, repeats=ReplayCount(shown=2, runs=5, other_result="passed"))


def kept(findings: Iterable[Finding], folder: Path) -> tuple[Path, ...]:
    return save(findings, folder, lambda finding: f"{finding.fail.message}\n", VERSIONS)


def test_a_stored_finding_is_found_by_its_id(tmp_path: Path) -> None:
    (place,) = kept([FINDING], tmp_path)
    assert locate(FINDING.id, tmp_path) == locate(str(place), tmp_path) == place / "finding.json"
    assert read(locate(FINDING.id, tmp_path)) == (RECORDED,)


def test_findings_with_one_smallest_case_have_different_ids(tmp_path: Path) -> None:
    other = replace(FINDING, fail=replace(FAIL, signature=replace(FAIL.signature, oracle="bounds")))
    assert len({*kept([FINDING, other], tmp_path)}) == 2
    assert FINDING.id == RECORDED.id != other.id


def test_an_id_that_is_not_stored_gets_the_nearest(tmp_path: Path) -> None:
    kept([FINDING], tmp_path)
    with pytest.raises(UsageError, match=f"unknown finding '{FINDING.id[:-1]}': did you mean {FINDING.id}"):
        locate(FINDING.id[:-1], tmp_path)


def test_a_stored_finding_is_read_back_whole(tmp_path: Path) -> None:
    (place,) = kept([replace(REPEATED, cases=(CASE, with_dims(T=9)))], tmp_path)
    (bug,) = load(tmp_path).bugs
    assert bug.finding == replace(REPEATED, cases=(CASE, with_dims(T=9)))
    assert (bug.folder, bug.versions, bug.other_folders) == (place, VERSIONS, ())


def test_a_finding_of_a_hardware_gpu_is_replayed_there(tmp_path: Path) -> None:
    found = replace(FINDING, engine_options=("--engine", "cuda", "--sanitizer", "memcheck"))
    kept([found], tmp_path)
    (bug,) = load(tmp_path).bugs
    assert bug.finding.engine_options == found.engine_options
    assert bug.finding.replay_command == f"harness replay {FINDING.id} --engine cuda --sanitizer memcheck"
    assert FINDING.replay_command == f"harness replay {FINDING.id}"
    once = replace(FINDING, engine_options=("--engine", "cuda", "--sanitizer", "gsan --write-once"))
    assert once.replay_command == f"harness replay {FINDING.id} --engine cuda --sanitizer 'gsan --write-once'"


def test_a_folder_is_text_that_a_pager_shows(tmp_path: Path) -> None:
    (place,) = kept([FINDING], tmp_path)
    assert sorted(path.name for path in place.iterdir()) == [
        f"cases-{CASE.digest}.jsonl",
        "finding.json",
        "finding.txt",
    ]
    assert (place / "finding.txt").read_text(encoding="utf-8") == f"{FAIL.message}\n"
    assert max(map(len, (place / "finding.json").read_text(encoding="utf-8").splitlines())) < 300


def test_a_later_search_adds_its_cases_to_those_that_are_kept(tmp_path: Path) -> None:
    kept([replace(FINDING, cases=(CASE, with_dims(T=9)))], tmp_path)
    kept([replace(FINDING, cases=(CASE, with_dims(T=11)))], tmp_path)
    (bug,) = load(tmp_path).bugs
    assert bug.finding.cases == (CASE, with_dims(T=9), with_dims(T=11))


def test_folders_of_two_machines_merge_by_copying(tmp_path: Path) -> None:
    larger = replace(FINDING, case=with_dims(T=5), cases=(with_dims(T=5), with_dims(T=9)))
    other = replace(FINDING, fail=replace(FAIL, signature=replace(FAIL.signature, oracle="bounds")), cases=(CASE,))
    kept([replace(FINDING, cases=(CASE, with_dims(T=9)))], tmp_path / "here")
    kept([larger, other], tmp_path / "there")
    shutil.copytree(tmp_path / "there", tmp_path / "here", dirs_exist_ok=True)
    merged = load(tmp_path / "here")
    assert [(bug.finding.fail.oracle, bug.finding.case, len(bug.other_folders)) for bug in merged.bugs] == [
        ("bounds", CASE, 0),
        ("write-overlap", with_dims(T=5), 0),
    ]
    assert {str(case) for case in merged.bugs[1].finding.cases} == {
        str(case) for case in (CASE, with_dims(T=9), with_dims(T=5))
    }
    assert merged.damaged == ()


FOREIGN = "not a document of the harness: expected an object whose `kind` is finding"


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("finding.json", "{", "finding.json: not readable as JSON"),
        ("finding.json", '{"format": "kernel-harness-findings/9", "oracle": "x", "case": {}}', FOREIGN),
        ("finding.json", "[]", FOREIGN),
        ("finding.json", None, "finding.json: No such file or directory"),
        ("finding.json", json.dumps({"kind": "region", "schema_version": 2}), "a document of kind 'region'"),
        (f"cases-{CASE.digest}.jsonl", "{}\n", f"cases-{CASE.digest}.jsonl: "),
        (
            "finding.json",
            json.dumps({**DOCUMENT, "case": {"op": 3}}),
            "finding.json: case.op: expected a string, got 3",
        ),
    ],
)
def test_a_damaged_folder_is_named_and_the_others_are_read(
    tmp_path: Path, file: str, text: str | None, said: str
) -> None:
    other = replace(FINDING, fail=replace(FAIL, signature=replace(FAIL.signature, oracle="bounds")))
    good, bad = kept([FINDING, other], tmp_path)
    (bad / file).unlink() if text is None else (bad / file).write_text(text, encoding="utf-8")
    found = load(tmp_path)
    assert [bug.folder for bug in found.bugs] == [good]
    (complaint,) = found.damaged
    assert complaint.startswith(str(bad / file))
    assert said in complaint
