"""`harness fuzz` replays kept regressions first, and names those that it cannot check."""

import shutil
from pathlib import Path

import pytest

from tests.cli.command_line import ON, Finished, Project
from tests.cli.fake_engine import suite_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with one kept regression, of the op `overlapping`."""
    project = Project(tmp_path_factory.mktemp("original"))
    (project.folder / ".git").mkdir()
    project.write("suites/two.py", suite_of("overlapping", "faultless"))
    assert project.harness("fuzz", "suites", "--op", "overlapping", "--cases", "20", *ON).status == 1
    (stored,) = (project.folder / ".harness" / "findings").glob("[!.]*")
    assert project.harness("keep", stored.name).out == f"suites/regressions/{stored.name}.json\n"
    return project.folder


@pytest.fixture
def project(original: Path, tmp_path: Path) -> Project:
    shutil.copytree(original, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".harness"))
    return Project(tmp_path)


def fuzzed(project: Project, *arguments: str) -> Finished:
    return project.harness("fuzz", *arguments, "--cases", "2", *ON)


def kept(project: Project) -> Path:
    (file,) = (project.folder / "suites" / "regressions").glob("*.json")
    return file.relative_to(project.folder)


@pytest.mark.nightly
def test_a_kept_failure_is_found_before_any_case_is_drawn(project: Project) -> None:
    found = fuzzed(project, "suites/two.py", "--op", "overlapping", "--json", "r.json")
    assert (found.status, "replayed 1 kept regression first" in found.out) == (1, True)
    assert f"shows again: {kept(project).stem} of {kept(project)}: write-overlap" in found.err
    of_another_op = fuzzed(project, "suites/two.py", "--op", "faultless")
    assert (of_another_op.status, "kept regression" in of_another_op.out + of_another_op.err) == (0, False)
    shards = [fuzzed(project, "suites", "--shard", f"{number}/2") for number in (1, 2)]
    assert ["replayed 1 kept regression first" in done.out for done in shards] == [True, False]


@pytest.mark.parametrize(
    ("suites", "named"),
    [
        ({"suites/two.py": suite_of("renamed", "faultless")}, "is of op 'overlapping', and suites/two.py declares"),
        ({"suites/two.py": "", "suites/three.py": suite_of("faultless")}, "there is no suite suites/two.py in"),
    ],
)
def test_a_regression_whose_op_is_gone_counts_as_not_checked(
    project: Project, suites: dict[str, str], named: str
) -> None:
    for name, text in suites.items():
        project.write(name, text)
        if not text:
            (project.folder / name).unlink()
    done = fuzzed(project, "suites")
    last = done.out.splitlines()[-1]
    assert (done.status, last) == (3, "no findings; 1 of 1 regression could not be checked")
    assert f"regression not checked: {kept(project).stem} of {kept(project)}: " in done.out
    assert named in done.out


def test_a_damaged_regression_is_named_and_a_foreign_file_is_not(project: Project) -> None:
    file = kept(project)
    project.write(str(file), (project.folder / file).read_text(encoding="utf-8")[:-40])
    project.write("suites/regressions/notes.json", '{"mine": 1}')
    done = fuzzed(project, "suites", "--op", "faultless")
    assert (done.status, done.out.count("regression not checked: ")) == (3, 1)
    assert f"regression not checked: {file}: " in done.out
