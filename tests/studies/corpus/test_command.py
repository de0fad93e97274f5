"""`python -m studies.corpus`: its output, its exit status, and resuming from stored results."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.documents import files
from studies.corpus import results
from studies.corpus.__main__ import main
from studies.corpus.verify import BugRecord, SearchBudget
from tests.studies.corpus.test_results import BUG, KEPT

SKIPPED = """
[[bug]]
id = "two"
what = "nothing that a launch shows"
distribution = "fla-core"
last_bad = "0.4.2"
first_fixed = "0.5.0"
link = "https://example.org/2"
not_searched = "no launch shows it"
"""
KNOWN = """
[[bug]]
id = "one"
what = "rows overlap"
distribution = "fla-core"
last_bad = "0.5.2"
first_fixed = "0.6.0"
link = "https://example.org/1"
suite = "suites/fla/norm.py"
ops = ["layer_norm"]
shows = [{ oracle = "write-overlap" }]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bugs.toml").write_text(KNOWN + SKIPPED)
    return tmp_path


def keep(record: BugRecord, file: Path) -> None:
    budget = SearchBudget(cases=40, seconds=60.0, processes=2, seed=0)
    files.write(results.CorpusResults(records=(replace(record, budget=budget),)), file)


def run(*arguments: str) -> int:
    usual = ("--bugs", "bugs.toml", "--cases", "40", "--minutes", "1", "--processes", "2", "--json", "records.json")
    return main([*arguments, *usual])


def test_a_stored_result_is_not_searched_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(KEPT, folder / "records.json")
    assert run() == 0
    printed = capsys.readouterr().out
    assert "| [one](https://example.org/1): rows overlap |" in printed
    assert "| not searched for: no launch shows it |" in printed
    assert "1 of 2 bugs found in the last bad release and not seen in the first fixed one; 1 not searched" in printed
    assert {record.bug.id for record in results.load(folder / "records.json").records} == {"one", "two"}


def test_a_missed_bug_exits_with_one(folder: Path) -> None:
    assert KEPT.bad is not None
    keep(BugRecord(bug=BUG, budget=KEPT.budget, bad=replace(KEPT.bad, found=None)), folder / "records.json")
    assert run() == 1


def test_nothing_checked_exits_with_three(folder: Path) -> None:
    assert folder.is_dir()
    assert run("two") == 3


def test_an_unknown_bug_is_a_usage_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert folder.is_dir()
    assert run("tow") == 2
    assert "unknown bug 'tow': did you mean two" in capsys.readouterr().err
