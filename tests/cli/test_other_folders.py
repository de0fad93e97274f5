"""A finding is replayed from any folder: its suite and its libraries are found again."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.libraries import PYTHON_TAG
from tests.cli.command_line import ENGINE, ON, Project
from tests.cli.fake_engine import suite_of

pytestmark = pytest.mark.slow

SEARCH = ("--cases", "10", "--oracle", "write-overlap", *ON, "--json", "r.json")


def report(project: Project) -> dict[str, Any]:
    return json.loads((project.folder / "r.json").read_text(encoding="utf-8"))


def subfolder(project: Project, name: str) -> Project:
    folder = project.folder / name
    folder.mkdir(parents=True, exist_ok=True)
    return Project(folder)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path / "project")
    project.write("suites/norm.py", suite_of("overlapping"))
    return project


def test_a_finding_is_replayed_from_other_folders_by_path_and_by_id(project: Project, tmp_path: Path) -> None:
    project.harness("fuzz", "suites", *SEARCH)
    (finding,) = report(project)["findings"]
    assert finding["case"]["op"] == "suites/norm.py:overlapping"
    elsewhere, below = Project(tmp_path), subfolder(project, "below/deeper")
    for done in (
        elsewhere.harness("replay", f"project/.harness/findings/{finding['id']}", *ENGINE),
        elsewhere.harness("replay", "project/r.json", *ENGINE),
        below.harness("replay", finding["id"], *ENGINE),
    ):
        assert (done.status, done.out.splitlines()[-1]) == (1, f"{finding['id']} fails again")
    assert finding["id"] in below.harness("findings").out
    kept = below.harness("keep", finding["id"])
    assert kept.out.strip() == str(project.folder / "suites" / "regressions" / f"{finding['id']}.json")


@pytest.mark.nightly
def test_a_kept_finding_is_replayed_after_the_project_has_moved(project: Project, tmp_path: Path) -> None:
    project.write("package/__init__.py", "")
    project.harness("fuzz", "suites", "--with", ".", *SEARCH)
    (finding,) = report(project)["findings"]
    project.harness("keep", finding["id"])
    moved = Project(project.folder.rename(tmp_path / "moved"))
    kept = moved.folder / "suites" / "regressions" / f"{finding['id']}.json"
    assert json.loads(kept.read_text(encoding="utf-8"))["libraries"] == ["."]
    assert moved.harness("replay", str(kept), *ENGINE).status == 1


def test_a_search_in_a_subfolder_draws_the_same_cases(project: Project) -> None:
    project.write("pyproject.toml", "")
    below = subfolder(project, "below")
    project.harness("fuzz", "suites/norm.py", *SEARCH)
    below.harness("fuzz", "../suites/norm.py", *SEARCH)
    here, there = (report(one)["findings"][0] for one in (project, below))
    assert here.pop("first_seen")["case_number"] == there.pop("first_seen")["case_number"]  # not the seconds
    assert here == there
    assert below.harness("replay", "r.json", *ENGINE).status == 1


@pytest.mark.nightly
def test_suites_and_libraries_outside_the_project_have_absolute_paths(project: Project, tmp_path: Path) -> None:
    project.write("../library/package/__init__.py", "")
    project.write("pyproject.toml", "")
    other = subfolder(Project(tmp_path), "other")
    other.harness("fuzz", "../project/suites/norm.py", "--with", "../library", *SEARCH)
    (finding,) = report(other)["findings"]
    assert finding["case"]["op"] == f"{project.folder}/suites/norm.py:overlapping"
    assert finding["libraries"] == [str(tmp_path / "library")]
    assert project.harness("replay", "../other/r.json", "--trust", *ENGINE).status == 1


LISTED = """
[[bug]]
id = "overlap"
what = "rows overlap"
distribution = "planted"
last_bad = "1.0"
first_fixed = "1.1"
link = "https://example.org/1"
suite = "suites/norm.py"
ops = ["overlapping"]
shows = [{ oracle = "write-overlap" }]
"""


@pytest.mark.nightly
def test_the_corpus_keeps_its_findings_apart(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(project.folder / "cache"))
    for version in ("1.0", "1.1"):
        (project.folder / "cache" / "libraries" / f"planted-{version}-{PYTHON_TAG}").mkdir(parents=True)
    project.write("bugs.toml", LISTED)
    done = project.run("studies.corpus", "--bugs", "bugs.toml", "--cases", "10", *ENGINE)
    (place,) = (project.folder / ".harness" / "corpus" / "findings").iterdir()
    assert f"kept in .harness/corpus/findings/{place.name}\n" in done.err
    assert not (project.folder / ".harness" / "findings").exists()
    assert project.harness("replay", f".harness/corpus/findings/{place.name}", *ENGINE).status == 1
    assert place.name in project.harness("findings", ".harness/corpus/findings").out


def test_a_suite_that_is_nowhere_is_named_with_the_folders(project: Project, tmp_path: Path) -> None:
    project.harness("fuzz", "suites", *SEARCH)
    (project.folder / "suites" / "norm.py").unlink()
    done = Project(tmp_path).harness("replay", "project/r.json", *ENGINE)
    assert (done.status, done.err) == (
        2,
        f"harness: there is no suite suites/norm.py in {tmp_path} or {project.folder}: "
        "run the command in the suite's project\n",
    )
