"""Commits of a local git repository as folders: each checked out apart, beside the repository's own working tree.

The repository is left as it was: worktrees lie in a temporary folder and are taken away again, on an interrupt too.
"""

import os
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.errors import MissingPart, UsageError

NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
"""What a repository does after a checkout is for people at work in it."""

OF_ANOTHER_REPOSITORY = {
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
}
"""What git sets for hooks, from one of which this may be called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit."""

    hash: str
    subject: str
    """The first line of its message."""

    @property
    def short(self) -> str:
        """Twelve digits."""
        return self.hash[:12]


@dataclass(frozen=True, slots=True)
class Repository:
    """A local git repository."""

    path: Path

    def commit(self, revision: str) -> Commit:
        """The commit that a branch, tag, hash or the like names.

        Raises:
            UsageError: this is no repository, or it has no such revision.
            MissingPart: there is no git.
        """
        if revision.startswith("-"):
            raise UsageError(f"{revision!r} is no revision")
        self._git("rev-parse", "--git-dir")
        return self._log("-1", f"{revision}^{{commit}}")[0]

    def is_older(self, one: Commit, other: Commit) -> bool:
        """Whether the other commit has this one among its ancestors."""
        if one == other:
            return False
        return self._git("merge-base", one.hash, other.hash, refuse=False).strip() == one.hash

    def between(self, older: Commit, newer: Commit) -> tuple[Commit, ...]:
        """Both, and what lies between them along the first parents of the newer: a merge counts as one change.

        Raises:
            UsageError: the older is no ancestor of the newer.
        """
        if not self.is_older(older, newer):
            raise UsageError(f"{older.short} is no ancestor of {newer.short}: name commits of one branch")
        return (older, *self._log("--first-parent", "--reverse", f"{older.hash}..{newer.hash}"))

    @contextmanager
    def checked_out(self, commit: Commit) -> Generator[Path]:
        """The commit's files in a folder of their own, which is gone when the context is left."""
        with tempfile.TemporaryDirectory(prefix="harness-bisect-", ignore_cleanup_errors=True) as temporary:
            folder = Path(temporary, commit.short)
            try:
                self._git(*NO_HOOKS, "worktree", "add", "--detach", "--quiet", str(folder), commit.hash)
                yield folder
            finally:
                self._git("worktree", "remove", "--force", "--force", str(folder), refuse=False)

    def _log(self, *arguments: str) -> tuple[Commit, ...]:
        lines = self._git("log", "--format=%H %s", *arguments, "--").splitlines()
        return tuple(Commit(hash=name, subject=subject) for name, _, subject in (line.partition(" ") for line in lines))

    def _git(self, *arguments: str, refuse: bool = True) -> str:
        """What git prints.

        Raises:
            UsageError: git refuses, in its own words, unless that is an answer too.
            MissingPart: there is no git.
        """
        try:
            finished = subprocess.run(
                ["git", "-C", str(self.path), *arguments],  # noqa: S607 - git is where PATH says
                env={name: value for name, value in os.environ.items() if name not in OF_ANOTHER_REPOSITORY},
                capture_output=True,
                text=True,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except FileNotFoundError:
            raise MissingPart("--repo needs git: apt-get install git") from None
        if finished.returncode and refuse:
            words = finished.stderr.strip().splitlines() or [f"git {arguments[0]} ended with {finished.returncode}"]
            raise UsageError(f"{self.path}: {words[0].removeprefix('fatal: ')}")
        return finished.stdout
