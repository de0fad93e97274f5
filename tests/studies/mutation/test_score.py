"""The score table, the file of outcomes, and the explained survivors."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.documents import files
from harness.errors import ReplayError, SuiteError
from studies.mutation import equivalent_mutants, score
from studies.mutation.equivalent_mutants import EquivalentMutant
from studies.mutation.mutants import Mutant
from studies.mutation.operators import Operator
from studies.mutation.outcome import Fate, MutantOutcome

MUTANT = Mutant(
    operator=Operator.STRICTNESS,
    file="lib/norm.py",
    function="kernel",
    launches=(),
    line=7,
    before="        m = o < n",
    after="        m = o <= n",
    statement=(7, 7),
    span=(100, 105),
    text="o <= n",
)
SURVIVED = MutantOutcome(mutant=MUTANT, fate=Fate.SURVIVED, ops=("suites/a.py:norm",), cases=60, seconds=3.0)
KILLED = replace(SURVIVED, fate=Fate.KILLED, oracle="bounds", other_oracles=("float64-values",), cases=1)
KNOWN = EquivalentMutant(
    operator=Operator.STRICTNESS,
    function="kernel",
    before="m = o < n",
    after="m = o <= n",
    equivalent=True,
    reason="o is even and n is odd",
)


def test_the_score_ignores_mutants_that_cannot_be_killed() -> None:
    others = tuple(replace(SURVIVED, fate=fate) for fate in (Fate.SAME_CODE, Fate.EQUIVALENT, Fate.STILLBORN))
    assert score.score((KILLED, KILLED, KILLED, SURVIVED, *others)) == 0.75
    assert score.score(others) is None


def test_kills_are_counted_per_cpu_minute() -> None:
    assert score.kill_rate((KILLED, KILLED, KILLED, SURVIVED), 90.0) == (
        "2.0 killed per CPU minute: 3 of the 4 mutants that this command tried, in 1.5 CPU minutes"
    )
    assert not score.kill_rate((), 90.0)


def test_an_equivalent_survivor_does_not_count() -> None:
    (with_explanations,) = score.with_explanations((SURVIVED,), (KNOWN,))
    assert (with_explanations.fate, with_explanations.reason) == (Fate.EQUIVALENT, "o is even and n is odd")


def test_an_explained_survivor_counts_and_shows_its_reason() -> None:
    (with_explanations,) = score.with_explanations((SURVIVED,), (replace(KNOWN, equivalent=False),))
    assert (with_explanations.fate, with_explanations.reason) == (Fate.SURVIVED, "o is even and n is odd")


@pytest.mark.parametrize(
    "change", [{"function": "other"}, {"before": "m = a < n"}, {"operator": Operator.DROP_MASK}, {"nth": 2}]
)
def test_an_explanation_is_about_one_change_in_one_kernel(change: dict[str, Any]) -> None:
    assert score.with_explanations((SURVIVED,), (replace(KNOWN, **change),)) == (SURVIVED,)


def test_an_explanation_never_undoes_a_kill() -> None:
    assert score.with_explanations((KILLED,), (KNOWN,)) == (KILLED,)


def test_the_table_counts_operators_and_oracles_and_shows_survivors() -> None:
    assert list(score.lines((KILLED, SURVIVED), 5)) == [
        "| operator | killed | survived | same code | equivalent | stillborn | score |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| strictness | 1 | 1 |  |  |  | 50.0 % |",
        "| all | 1 | 1 |  |  |  | 50.0 % |",
        "",
        "| oracle | kills | says so, too |",
        "| --- | ---: | ---: |",
        "| `bounds` | 1 |  |",
        "| `float64-values` |  | 1 |",
        "",
        f"survived: {MUTANT.id} strictness in kernel (norm.py:7), 60 cases of norm: other bits",
        "    - m = o < n",
        "    + m = o <= n",
        "",
        "2 of 5 mutants tried: 1 of 2 killed that compute something else (50.0 %); 0 compile to the same code, "
        "0 are equivalent by argument, 0 do not compile",
    ]


def test_outcomes_of_another_setting_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.json"
    ledger = score.MutationResults(setting="seed 0", mutants=5, outcomes=(KILLED, SURVIVED))
    files.write(ledger, path)
    assert score.load(path, "seed 0") == ledger
    assert score.load(path, "seed 1") == score.MutationResults(setting="seed 1")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.json"
    path.write_text("{}")
    with pytest.raises(ReplayError, match="expected an object whose `kind` is mutation"):
        score.load(path, "seed 0")


def test_an_explanation_without_a_reason_is_refused_by_number(tmp_path: Path) -> None:
    path = tmp_path / "mutants.toml"
    path.write_text(
        '[[survivor]]\noperator = "drop-mask"\nfunction = "f"\nbefore = "a"\nafter = "b"\nequivalent = true\n'
    )
    with pytest.raises(SuiteError, match=r"survivor 1: .*reason"):
        equivalent_mutants.read(path)


def test_a_misspelt_table_is_refused_with_the_right_name(tmp_path: Path) -> None:
    path = tmp_path / "mutants.toml"
    path.write_text("[[survivors]]\n")
    with pytest.raises(SuiteError, match="unknown table 'survivors': did you mean survivor"):
        equivalent_mutants.read(path)


def test_survivors_are_read_from_the_suites_folder_and_the_one_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "suites" / "fla").mkdir(parents=True)
    above, beside = tmp_path / "suites" / "mutants.toml", tmp_path / "suites" / "fla" / "mutants.toml"
    (tmp_path / "mutants.toml").touch()
    monkeypatch.chdir(tmp_path)
    assert equivalent_mutants.files_for([Path("suites/fla/norm.py")]) == ()
    above.touch()
    beside.touch()
    assert equivalent_mutants.files_for([Path("suites/fla/norm.py"), Path("suites/fla/gla.py")]) == (beside, above)
    monkeypatch.chdir(tmp_path / "suites" / "fla")
    assert equivalent_mutants.files_for([Path("norm.py")]) == (beside, above)


def test_the_files_of_survivors_are_valid() -> None:
    known = equivalent_mutants.read(Path(__file__).parents[3] / "suites" / "mutants.toml")
    assert all(one.reason for one in known)
    assert len({(one.operator, one.function, one.before, one.after, one.nth) for one in known}) == len(known)
