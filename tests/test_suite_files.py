"""Suites are found by path, and those that come with the harness by a short name from anywhere."""

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.suite import load_suite
from harness.suite_files import located, named_in_project, named_suites, portable_name, shipped_suites, suite_files

NORM = shipped_suites() / "fla" / "norm.py"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_short_name_is_a_suite_that_comes_with_the_harness() -> None:
    assert suite_files("fla:norm") == (str(NORM),)


def test_a_library_s_name_stands_for_all_its_suites() -> None:
    found = suite_files("fla")
    assert str(NORM) in found
    assert all(Path(file).parent == NORM.parent for file in found)


def test_a_file_of_that_name_comes_first(empty_folder: Path) -> None:
    (empty_folder / "fla").mkdir()
    (empty_folder / "fla" / "mine.py").write_text("from harness.suite import op\n")
    assert named_suites(["fla"]) == ("fla/mine.py",)


def test_a_misspelt_name_is_corrected() -> None:
    with pytest.raises(UsageError, match="unknown suite 'fla:norms': did you mean fla:norm"):
        suite_files("fla:norms")


def test_a_shipped_suite_has_one_name_in_every_project(empty_folder: Path) -> None:
    name = named_in_project(str(NORM))
    assert name == "suites/fla/norm.py"
    assert located(name, empty_folder) == NORM
    assert {op.id for op in load_suite(name, empty_folder)} >= {"suites/fla/norm.py:rms_norm"}


def test_a_project_s_own_suite_wins_over_a_shipped_one(empty_folder: Path) -> None:
    own = empty_folder / "suites" / "fla" / "norm.py"
    own.parent.mkdir(parents=True)
    own.write_text("# mine\n")
    assert located("suites/fla/norm.py", empty_folder) == own


def test_a_shipped_suite_keeps_its_name_where_the_project_has_another_of_that_name(empty_folder: Path) -> None:
    own = empty_folder / "suites" / "fla" / "norm.py"
    own.parent.mkdir(parents=True)
    own.write_text("from harness.suite import op\n")
    assert named_suites(["fla:norm"]) == (str(NORM),)
    assert named_suites(["suites/fla/norm.py"]) == ("suites/fla/norm.py",)


def test_a_suite_that_is_named_twice_counts_once(empty_folder: Path) -> None:
    (empty_folder / "mine.py").write_text("from harness.suite import op\n")
    assert named_suites(["mine.py", "./mine.py", str(empty_folder / "mine.py"), "fla:norm", str(NORM)]) == (
        "mine.py",
        "suites/fla/norm.py",
    )


@pytest.mark.parametrize("marker", ["pyproject.toml", ".git", "nothing"])
def test_draws_do_not_see_the_folder_of_a_suite(empty_folder: Path, marker: str) -> None:
    project = empty_folder / "project"
    (project / "tests").mkdir(parents=True)
    (project / marker).touch()
    assert portable_name(project / "tests" / "mine.py") == "mine.py"
    assert portable_name(Path("project/tests/../tests/mine.py")) == "mine.py"
    assert portable_name(empty_folder / "mine.py") == "mine.py"


def test_draws_do_not_see_where_the_harness_wrote_a_suite() -> None:
    assert portable_name(Path(".harness/checks/1f/softmax.py")) == "softmax.py"


def test_draws_see_a_shipped_suite_by_the_name_that_it_has_everywhere() -> None:
    assert portable_name(NORM) == "suites/fla/norm.py"
