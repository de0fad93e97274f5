"""`harness gate` on a small repository: it searches what a change touches, and asks the base about each finding."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import ENGINE, Finished, Project
from tests.cli.fake_engine import suite_of
from tests.findings.bisection.test_worktrees import Git
from tests.gate.small_library import MASKED, SUITE, UNMASKED, edit, small_repository

DOUBLING = "small/doubling.py"


@pytest.fixture
def git(tmp_path: Path) -> Git:
    return small_repository(tmp_path / "repository")


def gated(git: Git, *arguments: str) -> Finished:
    return Project(git.folder).harness("gate", "--base", "main", *arguments)


def searched(git: Git, *arguments: str) -> tuple[Finished, Any]:
    """Run a gate of few cases, and return its document too."""
    done = gated(git, "--cases", "24", "--minutes", "1", "--json", "gate.json", *arguments)
    return done, json.loads((git.folder / "gate.json").read_text(encoding="utf-8"))


def has_searched(git: Git) -> bool:
    return (git.folder / ".harness" / "scratch").exists()


@pytest.mark.parametrize(
    ("file", "old", "new", "named"),
    [
        ("README.md", "Kernels", "Fast kernels", ""),
        (DOUBLING, "Doubles numbers.", "Doubles all numbers.", ""),
        ("small/__init__.py", "", "UNUSED = 1\n", ""),
        (
            DOUBLING,
            "import triton.language as tl\n",
            "import triton.language as tl\n\ndef spare():\n    pass\n",
            "spare",
        ),
    ],
)
def test_a_change_that_no_op_reaches_passes_without_a_search(
    git: Git, file: str, old: str, new: str, named: str
) -> None:
    edit(git, file, old, new) if old else (git.folder / file).write_text(new, encoding="utf-8")
    done = gated(git, "--markdown", "comment.md", "--sarif", "gate.sarif")
    assert (done.status, has_searched(git)) == (0, False)
    assert "passed: nothing that an op reaches has changed since main (" in done.out
    assert (f"changed, and no op of these suites reaches it: {DOUBLING}: {named}" in done.out) == bool(named)
    assert "passed: nothing" in (git.folder / "comment.md").read_text(encoding="utf-8").splitlines()[0]
    assert json.loads((git.folder / "gate.sarif").read_text(encoding="utf-8"))["runs"][0]["results"] == []


@pytest.mark.slow
def test_a_new_bug_fails_and_is_told_in_every_form(git: Git) -> None:
    edit(git, DOUBLING, MASKED, UNMASKED)
    done, document = searched(git, "--markdown", "comment.md", "--sarif", "gate.sarif", "--annotations")
    assert done.status == 1, done.err
    assert "1 of 2 ops reaches what has changed:\n  double  small/doubling.py: double_kernel\n" in done.out
    assert done.out.splitlines()[-2].startswith("failed: 1 finding that main (")
    assert done.out.splitlines()[-1].startswith(
        "::error file=small/doubling.py,line=12,title=bounds%3A double_kernel::"
    )
    (judged,) = document["findings"]
    assert (document["verdict"], judged["standing"], judged["fails"]) == ("failed", "new", True)
    assert {row["op"] for row in document["campaign"]["op_checks"]} == {"suites/two.py:double"}
    comment = (git.folder / "comment.md").read_text(encoding="utf-8").splitlines()
    assert "failed: 1 finding that main" in comment[0]
    assert f"`harness replay {judged['finding']}`" in comment[4]
    (result,) = json.loads((git.folder / "gate.sarif").read_text(encoding="utf-8"))["runs"][0]["results"]
    assert result["baselineState"] == "new"


@pytest.mark.slow
@pytest.mark.nightly
def test_a_new_bug_becomes_one_file_that_shows_it(git: Git) -> None:
    edit(git, DOUBLING, MASKED, UNMASKED)
    done, document = searched(git, "--reproducers", "files")
    (judged,) = document["findings"]
    file = git.folder / "files" / f"repro-{judged['finding']}.py"
    assert (done.status, file.is_file(), "NOT CONFIRMED" in done.err) == (1, True, False), done.err


@pytest.mark.slow
def test_a_bug_of_the_base_passes_under_any_name(git: Git) -> None:
    edit(git, DOUBLING, MASKED, UNMASKED)
    git.commit("A bug")
    edit(git, DOUBLING, "def double_kernel", "def twice_kernel")
    edit(git, DOUBLING, "double_kernel[", "twice_kernel[")
    done, document = searched(git)
    (judged,) = document["findings"]
    assert (done.status, judged["standing"]) == (0, "at the base too"), done.err
    assert judged["note"].startswith("there as bounds: double_kernel doubling.py")
    assert done.out.splitlines()[-1].endswith(" does not show; 1 also at main")


@pytest.mark.slow
@pytest.mark.nightly
def test_a_suite_that_moves_with_its_library_is_asked_at_the_base(git: Git) -> None:
    edit(git, DOUBLING, MASKED, UNMASKED)
    git.commit("A bug")
    git("mv", DOUBLING, "small/twofold.py")
    edit(git, "suites/two.py", "from small import doubling", "from small import twofold as doubling")
    done, document = searched(git)
    assert (done.status, [judged["standing"] for judged in document["findings"]]) == (0, ["at the base too"]), done.out


@pytest.mark.slow
@pytest.mark.nightly
def test_a_kernel_beside_a_suite_is_the_bases_at_the_base(git: Git) -> None:
    kernels = git.folder / "suites" / "kernels"
    kernels.mkdir()
    (git.folder / DOUBLING).rename(kernels / "doubling.py")
    edit(git, "suites/two.py", "from harness.suite import op,", "from harness.suite import beside, op,")
    old = "    from small import doubling\n\n    return doubling"
    edit(git, "suites/two.py", old, '    return beside(__file__, "kernels/doubling.py")')
    git.commit("Kernels beside their suite")
    edit(git, "suites/kernels/doubling.py", MASKED, UNMASKED)
    done, document = searched(git)
    assert (done.status, [judged["standing"] for judged in document["findings"]]) == (1, ["new"]), done.out


@pytest.mark.slow
def test_an_op_that_cannot_be_checked_is_said(git: Git) -> None:
    (git.folder / "suites" / "two.py").write_text(suite_of("unknown"), encoding="utf-8")
    done, document = searched(git, *ENGINE)
    assert (done.status, document["verdict"]) == (3, "not checked")
    assert document["changes"] == [{"op": "suites/two.py:unknown", "through": [], "kernels": [], "is_new": True}]
    assert "not checked: " in done.out.splitlines()[-1]


def test_a_new_regression_touches_its_op_and_is_replayed(git: Git) -> None:
    (git.folder / "suites" / "two.py").write_text(suite_of("faultless", "overlapping"), encoding="utf-8")
    git.commit("Two ops")
    project = Project(git.folder)
    found = project.harness("fuzz", "suites", "--op", "overlapping", "--cases", "20", "--seed", "1", *ENGINE)
    assert found.status == 1
    (stored,) = (git.folder / ".harness" / "findings").glob("[!.]*")
    assert project.harness("keep", stored.name).status == 0
    done, document = searched(git, *ENGINE)
    (change,) = document["changes"]
    assert (change["op"], change["through"]) == (
        "suites/two.py:overlapping",
        [f"suites/regressions/{stored.name}.json"],
    )
    assert "replayed 1 kept regression first" in done.out
    assert (done.status, [judged["standing"] for judged in document["findings"]]) == (0, ["at the base too"])


def test_another_library_touches_every_op(git: Git) -> None:
    (git.folder / "suites" / "two.py").write_text(suite_of("faultless", "overlapping"), encoding="utf-8")
    other = git.folder / "more" / "other"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("", encoding="utf-8")
    git.commit("Two ops")
    edit(git, "pyproject.toml", "device", 'with = [".", "more"]\ndevice')
    done, document = searched(git, *ENGINE)
    through = ["pyproject.toml: with = ['.', './more']"]
    assert [(change["op"], change["through"]) for change in document["changes"]] == [
        ("suites/two.py:faultless", through),
        ("suites/two.py:overlapping", through),
    ]
    assert [judged["standing"] for judged in document["findings"]] == ["at the base too"]
    assert done.status == 0


def test_a_mistake_is_one_line(git: Git, tmp_path: Path) -> None:
    unknown = Project(git.folder).harness("gate", "--base", "nowhere")
    assert (unknown.status, unknown.out, len(unknown.err.splitlines())) == (2, "", 1)
    assert "has no revision 'nowhere': fetch it first" in unknown.err
    outside = tmp_path / "outside"
    (outside / "suites").mkdir(parents=True)
    (outside / "suites" / "two.py").write_text(SUITE, encoding="utf-8")
    (outside / "pyproject.toml").write_text("", encoding="utf-8")
    no_repository = Project(outside).harness("gate", "--base", "main")
    assert (no_repository.status, "not a git repository" in no_repository.err) == (2, True)
    no_suite = Project(tmp_path).harness("gate", "--base", "main")
    assert (no_suite.status, "name a suite" in no_suite.err) == (2, True)
