"""The sighting study: resuming from JSON lines, the table, the comparison, and one real search."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import ReplayError
from studies.corpus.__main__ import BUGS
from studies.corpus.bugs import choose, read
from studies.sightings import results
from studies.sightings.__main__ import main
from studies.sightings.search import Attempt, SightingLimits, attempt, command

LIMITS = SightingLimits(cases=40, seconds=60.0, processes=2)
SIGHTED = Attempt(bug="one", seed=1, limits=LIMITS, seconds=8.0, search_seconds=5.5, case_number=3, signature="bounds")
MISSED = Attempt(bug="one", seed=2, limits=LIMITS, ended="time limit")


def test_attempts_are_read_as_they_were_written(tmp_path: Path) -> None:
    results.append(SIGHTED, tmp_path / "a.jsonl")
    results.append(MISSED, tmp_path / "a.jsonl")
    assert results.load(tmp_path / "a.jsonl") == (SIGHTED, MISSED)


def test_a_line_of_a_killed_study_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    results.append(SIGHTED, file)
    with file.open("a") as stream:
        stream.write('{"bug": "on')
    assert results.load(file) == (SIGHTED,)
    results.append(MISSED, file)
    assert results.load(file) == (SIGHTED, MISSED)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"bug": 1}\n')
    with pytest.raises(ReplayError, match=r"a\.jsonl:1"):
        results.load(tmp_path / "a.jsonl")


def test_the_table_counts_what_was_not_sighted() -> None:
    slower = replace(SIGHTED, seed=3, seconds=10.0, case_number=5)
    printed = list(results.lines((SIGHTED, MISSED, slower)))
    assert "| one | 9.0 | 10.0 | 4 | 2 of 3 |" in printed
    assert printed[-2:] == ["not sighted: one, seed 2: time limit", "1 of 3 searches did not sight their bug"]


def test_a_comparison_takes_only_searches_of_both_files() -> None:
    after = (replace(SIGHTED, seconds=4.0), replace(MISSED, seconds=1.0, ended=""), replace(SIGHTED, seed=9))
    printed = list(results.comparison((SIGHTED, MISSED), after))
    assert "| one | 8.0 | 4.0 | 0.50 |" in printed
    assert printed[-1] == "2 searches in both files; sighted before alone: 0; sighted after alone: 1"


def test_a_search_has_the_bad_release_and_its_environment() -> None:
    (bug,) = choose(read(BUGS), ("fla_sm120_allocator",))
    words = " ".join(command(bug, 7, LIMITS))
    assert "--with fla-core==0.5.0 --op solve_tril --env DESCRIPTOR_RULE=9.0 --device rtx-pro-6000" in words
    assert words.endswith("--cases 40 --seed 7 --processes 2")


def test_compare_prints_ratios(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results.append(SIGHTED, tmp_path / "a.jsonl")
    results.append(replace(SIGHTED, seconds=6.0), tmp_path / "b.jsonl")
    assert main(["--compare", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]) == 0
    assert "| all | 8.0 | 6.0 | 0.75 |" in capsys.readouterr().out


def test_a_search_past_its_time_limit_sights_nothing() -> None:
    (bug,) = choose(read(BUGS), ("fla_layernorm_overlap",))
    assert attempt(bug, 0, replace(LIMITS, seconds=0.0)).ended == "time limit"


@pytest.mark.nightly
def test_a_real_search_sights_the_bug() -> None:
    (bug,) = choose(read(BUGS), ("fla_layernorm_overlap",))
    sighted = attempt(bug, 101, LIMITS)
    assert sighted.signature.startswith("write-overlap: layer_norm_bwd_kernel")
    assert sighted.search_seconds is not None
    assert sighted.search_seconds < (sighted.seconds or 0.0) <= 60.0
