"""The list of historical bugs: valid entries, failure patterns, and refused entries."""

from pathlib import Path

import pytest

from harness.errors import SuiteError, UsageError
from harness.model.verdict import Severity, Signature
from harness.suite import load_suite
from studies.corpus.bugs import BugPattern, HistoricalBug, choose, read

ROOT = Path(__file__).parents[3]
LISTED = read(ROOT / "studies" / "corpus" / "corpus.toml")
ENTRY = """
[[bug]]
id = "one"
what = "something"
distribution = "fla-core"
last_bad = "0.5.2"
first_fixed = "0.6.0"
link = "https://example.org/1"
"""


def signature(oracle: str = "bounds", kernel: str = "sum_kernel", place: str = "sum.py:3") -> Signature:
    return Signature(oracle=oracle, severity=Severity.ERROR, op="suites/a.py:sum", kernel=kernel, place=place)


def listed(folder: Path, text: str) -> Path:
    file = folder / "bugs.toml"
    file.write_text(text)
    return file


def test_a_pattern_matches_oracle_kernel_and_place() -> None:
    mark = BugPattern(oracle="bounds", kernel="sum_*", place="sum.py:*")
    assert mark.matches(signature())
    assert not mark.matches(signature(oracle="float64-values"))
    assert not mark.matches(signature(kernel="mean_kernel"))
    assert not mark.matches(signature(place="mean.py:3"))


def test_any_pattern_identifies_the_bug() -> None:
    (bug,) = (one for one in LISTED if one.id == "fla_conv_noncontig_dy")
    kernel = "causal_conv1d_bwd_kernel"
    assert bug.is_shown_by(signature("bounds", kernel))
    assert bug.is_shown_by(signature("float64-values", kernel, "dx"))
    assert not bug.is_shown_by(signature("write-overlap", kernel))


@pytest.mark.parametrize("bug", [bug for bug in LISTED if not bug.not_searched], ids=lambda bug: bug.id)
def test_every_listed_bug_names_ops_that_exist(bug: HistoricalBug) -> None:
    assert set(bug.ops) <= {op.name for op in load_suite(str(ROOT / bug.suite))}


def test_each_bug_is_listed_once() -> None:
    ids = [bug.id for bug in LISTED]
    assert len(ids) == len(set(ids)) == 84


def test_a_release_has_the_format_of_with(tmp_path: Path) -> None:
    (bug,) = read(listed(tmp_path, ENTRY + 'not_searched = "why"\nbeside = ["einops==0.8.2"]'))
    assert bug.release(bug.last_bad) == ("fla-core==0.5.2", "einops==0.8.2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lists no bugs"),
        ("[[bug", "is not TOML"),
        ("[[bug]]\nid = 3", "bug 1: "),
        (ENTRY + "colour = 'red'", "colour"),
        (ENTRY, r"bug 1 \(one\): needs suite, ops and shows"),
    ],
)
def test_an_invalid_list_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SuiteError, match=message):
        read(listed(tmp_path, text))


def test_a_missing_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="cannot read the list of bugs"):
        read(tmp_path / "none.toml")


def test_bugs_are_chosen_by_id_in_the_order_given() -> None:
    two = ("liger_rope_batch", "fla_l2norm_int32")
    assert tuple(bug.id for bug in choose(LISTED, two)) == two
    assert choose(LISTED, ()) == LISTED
    with pytest.raises(UsageError, match="unknown bug 'te_unpermute': did you mean te_unpermute_race"):
        choose(LISTED, ("te_unpermute",))
