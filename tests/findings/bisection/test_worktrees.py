"""Commits are checked out apart from the user's working tree, and leave no trace."""

import os
import subprocess
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.findings.bisection import worktrees
from harness.findings.bisection.worktrees import Commit, Repository


class Git:
    """A repository that tests write to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self("init", "--quiet", "--initial-branch", "main")

    def __call__(self, *arguments: str) -> str:
        settings = ("-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
        command = ["git", "-C", str(self.folder), *settings, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def commit(self, subject: str, **files: str) -> None:
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(text, encoding="utf-8")
        self("add", "--all")
        self("commit", "--quiet", "--allow-empty", "--message", subject)


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """A history of four commits: first, second, a merge of a branch, and third."""
    made = Git(tmp_path / "library")
    made.commit("first", kernels="ONE = 1\n")
    made("switch", "--quiet", "--create", "side")
    made.commit("beside")
    made("switch", "--quiet", "main")
    made.commit("second", kernels="ONE = 2\n")
    made("merge", "--quiet", "--no-edit", "--message", "merge", "side")
    made.commit("third", kernels="ONE = 3\n")
    return made


def test_commits_follow_first_parents(git: Git) -> None:
    repository = Repository(git.folder)
    first, last = repository.commit("main~3"), repository.commit("HEAD")
    assert [one.subject for one in repository.between(first, last)] == ["first", "second", "merge", "third"]
    assert [one.subject for one in repository.between(repository.commit("side"), last)] == [
        "beside",
        "second",
        "merge",
        "third",
    ]


def test_age_is_ancestry(git: Git) -> None:
    repository = Repository(git.folder)
    first, side, second, last = map(repository.commit, ("main~3", "side", "main~2", "HEAD"))
    assert [repository.is_older(*pair) for pair in ((first, last), (side, last), (second, side), (last, first))] == [
        True,
        True,
        False,
        False,
    ]
    with pytest.raises(UsageError, match=f"{second.short} is no ancestor of {side.short}"):
        repository.between(second, side)


def test_a_checkout_leaves_no_trace(git: Git) -> None:
    (git.folder / "kernels.py").write_text("ONE = 'in work'\n", encoding="utf-8")
    repository = Repository(git.folder)
    seen: list[tuple[Path, str]] = []

    def check_out_until_interrupted() -> None:
        with repository.checked_out(repository.commit("main~3")) as folder:
            seen.append((folder, (folder / "kernels.py").read_text(encoding="utf-8")))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_out_until_interrupted()
    ((folder, text),) = seen
    assert (text, folder.exists(), folder.parent.exists()) == ("ONE = 1\n", False, False)
    assert git("worktree", "list").count("\n") == 1
    assert git("branch", "--show-current") == "main\n"
    assert (git.folder / "kernels.py").read_text(encoding="utf-8") == "ONE = 'in work'\n"


def test_hooks_of_the_repository_do_not_run(git: Git) -> None:
    hook = git.folder / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\necho > hooked\n", encoding="utf-8")
    hook.chmod(0o755)
    repository = Repository(git.folder)
    with repository.checked_out(repository.commit("HEAD")) as folder:
        assert not (folder / "hooked").exists()


def test_the_environment_of_a_calling_hook_is_ignored(
    git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Git(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other.folder / ".git"))
    assert Repository(git.folder).commit("HEAD").subject == "third"


@pytest.mark.parametrize("revision", ["nowhere", "", "--all"])
def test_a_revision_that_does_not_exist_is_named(git: Git, revision: str) -> None:
    with pytest.raises(UsageError, match=f"{revision}|revision"):
        Repository(git.folder).commit(revision)


def test_a_folder_without_a_repository_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UsageError, match=str(folder)):
            Repository(folder).commit("HEAD")


def test_a_branch_point_is_where_the_histories_part(git: Git) -> None:
    git("switch", "--quiet", "--create", "later", "main~2")
    git.commit("own work")
    repository = Repository(git.folder / ".git" / "..").at_top()
    assert repository.path == git.folder
    assert [repository.branch_point(name).subject for name in ("main", "later", "main~3")] == [
        "second",
        "own work",
        "first",
    ]
    git("switch", "--quiet", "--orphan", "apart")
    git.commit("apart")
    assert repository.branch_point("main").subject == "third"
    with pytest.raises(UsageError, match="has no revision 'nowhere': fetch it first"):
        repository.branch_point("nowhere")


def test_changed_files_are_those_of_the_working_tree(git: Git) -> None:
    git.commit("more", gone="1\n", ünï="1\n", same="1\n")
    (git.folder / ".gitignore").write_text("ignored.py\n", encoding="utf-8")
    (git.folder / "gone.py").unlink()
    (git.folder / "ünï.py").write_text("2\n", encoding="utf-8")
    for name in ("ignored.py", "folder/new.py"):
        (git.folder / name).parent.mkdir(exist_ok=True)
        (git.folder / name).write_text("3\n", encoding="utf-8")
    repository = Repository(git.folder)
    changed = repository.changed_files(repository.commit("HEAD"))
    assert changed == (".gitignore", "folder/new.py", "gone.py", "ünï.py")


def test_a_short_hash_has_twelve_digits() -> None:
    assert Commit(hash="0123456789abcdef", subject="").short == "0123456789ab"


def test_a_git_that_stops_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopping = tmp_path / "git"
    stopping.write_text("#!/bin/sh\nkill -STOP $$\n", encoding="utf-8")
    stopping.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(worktrees, "GIT_LIMIT_S", 0.2)
    with pytest.raises(UsageError, match=r"did not end within 0\.2 s"):
        Repository(tmp_path).commit("HEAD")
