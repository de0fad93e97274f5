"""The log of a search stores each failure when it is seen, and a symptom only with its cause."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.findings import store
from harness.findings.search_log import SearchLog
from harness.model.finding import NEVER_REPEATED, Finding, ReplayCount
from harness.model.verdict import Signature
from tests.findings.searches_at_once import ROUNDS, SEARCHES
from tests.reports.samples import CAUSE, OVERLAP, STRAY, VALUES


def signature(finding: Finding) -> Signature:
    return finding.fail.signature


def stored(folder: Path) -> set[str]:
    return {one.finding.id for one in store.load(folder).bugs}


def test_a_cause_replaces_the_findings_of_its_symptoms(tmp_path: Path) -> None:
    log = SearchLog(tmp_path, lambda _: "text", {})
    for finding in (OVERLAP, VALUES, STRAY):
        log.keep(signature(finding), finding)
    assert stored(tmp_path) == {OVERLAP.id, VALUES.id, STRAY.id}
    log.keep(signature(CAUSE), CAUSE)
    assert (log.findings, stored(tmp_path)) == ({signature(CAUSE): CAUSE}, {CAUSE.id})
    assert [log.is_symptom(signature(one)) for one in (OVERLAP, VALUES, STRAY)] == [False, True, True]


def test_a_symptom_that_leaves_its_cause_is_a_finding_again(tmp_path: Path) -> None:
    log = SearchLog(tmp_path, lambda _: "text", {})
    log.keep(signature(CAUSE), CAUSE)
    log.keep(signature(OVERLAP), replace(CAUSE, symptoms=CAUSE.symptoms[:1]))
    log.keep(signature(STRAY), STRAY)
    assert stored(tmp_path) == {CAUSE.id, STRAY.id}
    assert [log.is_symptom(signature(one)) for one in (VALUES, STRAY)] == [True, False]


def test_a_finding_of_an_earlier_search_stays_in_the_store(tmp_path: Path) -> None:
    store.save([VALUES], tmp_path, lambda _: "text", {})
    log = SearchLog(tmp_path, lambda _: "text", {})
    log.keep(signature(VALUES), VALUES)
    log.keep(signature(CAUSE), CAUSE)
    assert stored(tmp_path) == {VALUES.id, CAUSE.id}


def test_ten_searches_in_one_store_lose_no_case(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.findings.searches_at_once", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    kept = store.load(tmp_path)
    (bug,) = kept.bugs
    sizes = {case.dims["T"] for case in bug.finding.cases if case.dims["T"] >= 100}
    assert (kept.damaged, sizes) == ((), {*range(100, 100 + SEARCHES * ROUNDS)})
    assert list(tmp_path.rglob("*.unfinished")) == []


@pytest.mark.parametrize("repeats", [VALUES.repeats, NEVER_REPEATED])
def test_a_search_keeps_the_folder_that_another_has_written_to(tmp_path: Path, repeats: ReplayCount) -> None:
    ours, theirs = (SearchLog(tmp_path, lambda _: "text", {}) for _ in range(2))
    seen = replace(VALUES, confirmed=False, repeats=repeats)
    ours.keep(signature(VALUES), seen)
    theirs.keep(signature(VALUES), replace(seen, cases=(OVERLAP.case,)))
    ours.keep(signature(CAUSE), CAUSE)
    assert stored(tmp_path) == {VALUES.id, CAUSE.id}
