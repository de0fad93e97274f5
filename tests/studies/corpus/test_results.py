"""Results of corpus searches are printed, stored, and read back."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.documents import files
from harness.errors import ReplayError
from studies.corpus import results
from studies.corpus.bugs import BugPattern, HistoricalBug
from studies.corpus.verify import BugRecord, FoundBug, SearchBudget, SearchResult
from tests.search.fakes import with_dims

BUDGET = SearchBudget(cases=2000, seconds=600.0, processes=2, seed=0)
BUG = HistoricalBug(
    id="one",
    what="rows overlap",
    distribution="fla-core",
    last_bad="0.5.2",
    first_fixed="0.6.0",
    link="https://example.org/1",
    suite="suites/fla/norm.py",
    ops=("layer_norm",),
    shows=(BugPattern(oracle="write-overlap"),),
)
FOUND = FoundBug(
    signature="write-overlap: layer_norm_bwd_kernel layernorm.py:431",
    source_line="layernorm.py:431",
    cases=17,
    seconds=12.4,
    smallest=with_dims(T=3, D=2),
    finding="0a1b2c3d",
)
BAD = SearchResult(release=("fla-core==0.5.2",), cases=20, checked=19, seconds=14.0, found=FOUND)
SILENT = SearchResult(release=("fla-core==0.6.0",), cases=300, checked=299, seconds=60.0)
KEPT = BugRecord(bug=BUG, budget=BUDGET, bad=BAD, fixed=SILENT)


def row(record: BugRecord) -> str:
    return list(results.lines([record]))[2]


def test_a_confirmed_bug_shows_its_cases_and_those_of_the_fixed_release() -> None:
    assert KEPT.is_confirmed
    assert row(KEPT) == (
        "| [one](https://example.org/1): rows overlap | layer_norm | fla-core 0.5.2, 0.6.0 "
        "| `write-overlap: layer_norm_bwd_kernel layernorm.py:431` | 17 cases, 12 s "
        "| layer_norm  T=3 D=2 G=1  fp32, no residual or weight | not seen in 299 checked cases of 300 |"
    )


def test_a_bug_that_shows_in_the_fixed_release_is_not_confirmed() -> None:
    seen = replace(KEPT, fixed=replace(SILENT, found=FOUND))
    assert not seen.is_confirmed
    assert "**still seen**: `write-overlap: layer_norm_bwd_kernel layernorm.py:431` after 17 cases, 12 s" in row(seen)


def test_a_fixed_release_without_checked_cases_confirms_nothing() -> None:
    mute = replace(KEPT, fixed=replace(SILENT, checked=0))
    assert not mute.is_confirmed
    assert "**not checked**: no case could be checked" in row(mute)


def test_a_fixed_release_with_too_few_cases_confirms_nothing() -> None:
    short = replace(KEPT, fixed=replace(SILENT, cases=16, checked=16, out_of_time=True))
    assert not short.is_confirmed
    assert "not seen in 16 checked cases of 16, when time was over" in row(short)
    assert replace(short, fixed=replace(SILENT, cases=17, checked=17, out_of_time=True)).is_confirmed


def test_a_missed_bug_lists_the_other_failures() -> None:
    missed = BugRecord(
        bug=BUG, budget=BUDGET, bad=replace(BAD, found=None, other_signatures=("bounds: a_kernel x.py:3",))
    )
    assert not missed.is_confirmed
    assert "**not found**: seen instead: `bounds: a_kernel x.py:3`" in row(missed)
    barred = replace(missed, bad=replace(BAD, found=None, obstacle="fla-core==0.5.2 cannot be installed\nat all"))
    assert "**not found**: fla-core==0.5.2 cannot be installed |" in row(barred)


def test_a_bug_that_is_not_searched_shows_the_reason() -> None:
    skipped = BugRecord(bug=replace(BUG, not_searched="nothing shows it"), budget=BUDGET)
    assert "not searched for: nothing shows it" in row(skipped)
    assert results.conclusion([KEPT, skipped]) == (
        "1 of 2 bugs found in the last bad release and not seen in the first fixed one; 1 not searched for"
    )


def test_a_bug_that_no_release_has_fixed_is_counted_apart() -> None:
    record = BugRecord(bug=replace(BUG, first_fixed=""), budget=BUDGET, bad=BAD)
    assert (record.is_open, record.is_confirmed) == (True, False)
    assert "| fla-core 0.5.2, none |" in row(record)
    assert row(record).endswith("no residual or weight |  |")
    assert results.conclusion([KEPT, record]) == (
        "1 of 2 bugs found in the last bad release and not seen in the first fixed one; "
        "1 found that no release has fixed"
    )


def test_a_record_is_reused_for_the_same_bug_and_budget_only(tmp_path: Path) -> None:
    file = tmp_path / "records.json"
    files.write(results.CorpusResults().plus(replace(KEPT, fixed=None)).plus(KEPT), file)
    ledger = results.load(file)
    assert ledger.records == (KEPT,)
    assert ledger.of(BUG, BUDGET) == KEPT
    assert ledger.of(BUG, replace(BUDGET, seed=1)) is None
    assert ledger.of(replace(BUG, first_fixed="0.7.0"), BUDGET) is None


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "records.json"
    assert results.load(file) == results.CorpusResults()
    for text in ("{}", "no json"):
        file.write_text(text)
        with pytest.raises(ReplayError, match=r"records\.json"):
            results.load(file)
