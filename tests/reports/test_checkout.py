"""The checkout that a report names, from a real repository."""

import subprocess
from pathlib import Path

from harness.reports.checkout import Checkout, checkout_of


def git(folder: Path, *arguments: str) -> str:
    person = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", "-C", str(folder), *person, *arguments], capture_output=True, text=True, check=True)  # noqa: S607
    return done.stdout.strip()


def test_a_checkout_has_its_origin_commit_date_and_changes(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    (folder / "suites").mkdir(parents=True)
    assert checkout_of(folder) is None
    git(folder, "init")
    assert checkout_of(folder) is None, "there is no commit"
    (folder / "a.py").write_text("1\n", encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "first", "--date", "2030-01-02T03:04:05")
    here = checkout_of(folder / "suites")
    commit, date = git(folder, "rev-parse", "HEAD"), git(folder, "show", "-s", "--format=%cs")
    assert here == Checkout(repository="kernels", commit=commit, date=date, is_changed=False)
    (folder / "a.py").write_text("2\n", encoding="utf-8")
    git(folder, "remote", "add", "origin", "https://user:secret@example.org/team/kernels.git")
    there = checkout_of(folder)
    assert there is not None
    assert (there.repository, there.is_changed) == ("https://example.org/team/kernels.git", True)
