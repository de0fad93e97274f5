"""What came of hunts is printed honestly, kept, and read again."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.corpus import results
from harness.corpus.bugs import HistoricalBug, Mark
from harness.corpus.verify import Budget, BugRecord, Found, SearchResult
from harness.errors import ReplayError
from tests.search.fakes import with_dims

pytestmark = pytest.mark.once

BUDGET = Budget(cases=2000, seconds=600.0, processes=2, seed=0)
BUG = HistoricalBug(
    id="one",
    what="rows overlap",
    distribution="fla-core",
    last_bad="0.5.2",
    first_fixed="0.6.0",
    link="https://example.org/1",
    suite="suites/fla/norm.py",
    ops=("layer_norm",),
    shows=(Mark(oracle="write-overlap"),),
)
FOUND = Found(
    signature="write-overlap: layer_norm_bwd_kernel layernorm.py:431",
    where="layernorm.py:431",
    cases=17,
    seconds=12.4,
    smallest=with_dims(T=3, D=2),
    finding="0a1b2c3d",
)
BAD = SearchResult(release=("fla-core==0.5.2",), cases=20, judged=19, seconds=14.0, found=FOUND)
SILENT = SearchResult(release=("fla-core==0.6.0",), cases=300, judged=299, seconds=60.0)
KEPT = BugRecord(bug=BUG, budget=BUDGET, bad=BAD, fixed=SILENT)


def row(record: BugRecord) -> str:
    return list(results.lines([record]))[2]


def test_a_bug_that_was_found_and_is_mended_shows_how_soon_and_in_how_many_cases_nothing_was_seen() -> None:
    assert KEPT.is_kept
    assert row(KEPT) == (
        "| [one](https://example.org/1): rows overlap | layer_norm | fla-core 0.5.2, 0.6.0 "
        "| `write-overlap: layer_norm_bwd_kernel layernorm.py:431` | 17 cases, 12 s "
        "| layer_norm  T=3 D=2 G=1  fp32, no residual or weight | silent in 299 cases that were judged, of 300 |"
    )


def test_a_bug_that_is_seen_in_the_mended_release_is_not_kept() -> None:
    seen = replace(KEPT, fixed=replace(SILENT, found=FOUND))
    assert not seen.is_kept
    assert "**still seen**: `write-overlap: layer_norm_bwd_kernel layernorm.py:431` after 17 cases, 12 s" in row(seen)


def test_a_silence_in_which_nothing_was_judged_is_none() -> None:
    mute = replace(KEPT, fixed=replace(SILENT, judged=0))
    assert not mute.is_kept
    assert "**not judged**: no case could be judged" in row(mute)


def test_a_silence_in_fewer_cases_than_the_bug_took_is_none() -> None:
    short = replace(KEPT, fixed=replace(SILENT, cases=16, judged=16, out_of_time=True))
    assert not short.is_kept
    assert "silent in 16 cases that were judged, of 16, when time was over" in row(short)
    assert replace(short, fixed=replace(SILENT, cases=17, judged=17, out_of_time=True)).is_kept


def test_a_bug_that_was_not_found_says_what_was_seen_instead() -> None:
    missed = BugRecord(bug=BUG, budget=BUDGET, bad=replace(BAD, found=None, others=("bounds: a_kernel x.py:3",)))
    assert not missed.is_kept
    assert "**not found**: seen instead: `bounds: a_kernel x.py:3`" in row(missed)
    barred = replace(missed, bad=replace(BAD, found=None, obstacle="fla-core==0.5.2 cannot be installed\nat all"))
    assert "**not found**: fla-core==0.5.2 cannot be installed |" in row(barred)


def test_a_bug_that_is_not_searched_for_says_why_and_is_counted_apart() -> None:
    skipped = BugRecord(bug=replace(BUG, not_searched="nothing shows it"), budget=BUDGET)
    assert "not searched for: nothing shows it" in row(skipped)
    assert results.conclusion([KEPT, skipped]) == (
        "1 of 2 bugs found in the last bad release and not seen in the first fixed one; 1 not searched for"
    )


def test_records_are_read_as_they_were_written_and_serve_the_same_bug_and_budget_alone(tmp_path: Path) -> None:
    file = tmp_path / "records.json"
    results.save(results.CorpusResults().plus(replace(KEPT, fixed=None)).plus(KEPT), file)
    ledger = results.load(file)
    assert ledger.records == (KEPT,)
    assert ledger.of(BUG, BUDGET) == KEPT
    assert ledger.of(BUG, replace(BUDGET, seed=1)) is None
    assert ledger.of(replace(BUG, first_fixed="0.7.0"), BUDGET) is None


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "records.json"
    assert results.load(file) == results.CorpusResults()
    for text in ("{}", "no json"):
        file.write_text(text)
        with pytest.raises(ReplayError, match=r"records\.json"):
            results.load(file)
