"""Commits of a local git repository, each checked out in a temporary worktree.

The repository and its own working tree stay unchanged.  Worktrees are removed again, even after an interrupt.
"""

import os
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.errors import MissingPart, UsageError

GIT_LIMIT_S = 600.0
"""A checkout of a large repository takes minutes."""
NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
"""The repository's hooks are for people who work in it."""

REPOSITORY_VARIABLES = {
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
}
"""Variables that git sets for its hooks.  If such a hook calls us, they name another repository."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    hash: str
    subject: str
    """The first line of its message."""

    @property
    def short(self) -> str:
        """The first twelve digits of the hash."""
        return self.hash[:12]


@dataclass(frozen=True, slots=True)
class Repository:
    """A local git repository."""

    path: Path

    def at_top(self) -> "Repository":
        """Return the same repository by the top of the working tree that the path is in.

        Raises:
            UsageError: the path is in none.
            MissingPart: git is not installed.
        """
        return Repository(Path(self._git("rev-parse", "--show-toplevel").rstrip("\n")))

    def commit(self, revision: str) -> Commit:
        """Return the commit that a branch, tag or hash names.

        Raises:
            UsageError: the path is no repository, or has no such revision.
            MissingPart: git is not installed.
        """
        if revision.startswith("-"):
            raise UsageError(f"{revision!r} is no revision")
        self._git("rev-parse", "--git-dir")
        return self._log("-1", f"{revision}^{{commit}}")[0]

    def is_older(self, first: Commit, second: Commit) -> bool:
        """Return True if this commit is an ancestor of the other one."""
        if first == second:
            return False
        return self._git("merge-base", first.hash, second.hash, check=False).strip() == first.hash

    def between(self, older: Commit, newer: Commit) -> tuple[Commit, ...]:
        """Return both commits and all between them along first parents, so that a merge counts as one change.

        Raises:
            UsageError: the older is no ancestor of the newer.
        """
        if not self.is_older(older, newer):
            raise UsageError(f"{older.short} is no ancestor of {newer.short}: name commits of one branch")
        return (older, *self._log("--first-parent", "--reverse", f"{older.hash}..{newer.hash}"))

    def branch_point(self, revision: str) -> Commit:
        """Return the commit at which HEAD left a revision; the revision itself if the histories share none.

        Raises:
            UsageError: the repository has no such revision.
        """
        name = f"{revision}^{{commit}}"
        if revision.startswith("-") or not self._git("rev-parse", "--verify", "--quiet", name, check=False).strip():
            raise UsageError(f"{self.path} has no revision {revision!r}: fetch it first, if this is a shallow clone")
        shared = self._git("merge-base", "HEAD", name, check=False).strip()
        return self.commit(shared or revision)

    def changed_files(self, commit: Commit) -> tuple[str, ...]:
        """Return the files of the working tree that differ from a commit, untracked ones included, as paths in it."""
        tracked = self._git("diff", "--name-only", "--no-renames", "-z", commit.hash, "--")
        untracked = self._git("ls-files", "--others", "--exclude-standard", "-z")
        return tuple(sorted({*filter(None, tracked.split("\0")), *filter(None, untracked.split("\0"))}))

    @contextmanager
    def checked_out(self, commit: Commit) -> Generator[Path]:
        """Check the commit out into a temporary folder, and remove it when the block ends."""
        with tempfile.TemporaryDirectory(prefix="harness-commit-", ignore_cleanup_errors=True) as temporary:
            folder = Path(temporary, commit.short)
            try:
                self._git(*NO_HOOKS, "worktree", "add", "--detach", "--quiet", str(folder), commit.hash)
                yield folder
            finally:
                self._git("worktree", "remove", "--force", "--force", str(folder), check=False)

    def _log(self, *arguments: str) -> tuple[Commit, ...]:
        lines = self._git("log", "--format=%H %s", *arguments, "--").splitlines()
        return tuple(Commit(hash=name, subject=subject) for name, _, subject in (line.partition(" ") for line in lines))

    def _git(self, *arguments: str, check: bool = True) -> str:
        """Return the output of git.

        Raises:
            UsageError: git does not end, or fails and `check` is true; the message is git's own.
            MissingPart: git is not installed.
        """
        try:
            finished = subprocess.run(
                ["git", "-C", str(self.path), *arguments],  # noqa: S607 - git is where PATH says
                env={name: value for name, value in os.environ.items() if name not in REPOSITORY_VARIABLES},
                capture_output=True,
                text=True,
                check=False,
                stdin=subprocess.DEVNULL,
                timeout=GIT_LIMIT_S,
            )
        except FileNotFoundError:
            raise MissingPart("git is not installed: apt-get install git") from None
        except subprocess.TimeoutExpired:
            raise UsageError(f"{self.path}: git {arguments[0]} did not end within {GIT_LIMIT_S:g} s") from None
        if finished.returncode and check:
            lines = finished.stderr.strip().splitlines() or [f"git {arguments[0]} ended with {finished.returncode}"]
            raise UsageError(f"{self.path}: {lines[0].removeprefix('fatal: ')}")
        return finished.stdout
