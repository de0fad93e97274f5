"""The checkout in which a report is made: its repository, commit and date, as git has them."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

LIMIT_S = 10.0
SHOWN = 12
"""How many digits of a commit are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A commit of a repository."""

    repository: str
    """The address of its origin without a password, or else the name of its folder."""
    commit: str
    date: str
    """That of the commit: `2026-11-25`."""
    is_changed: bool
    """True if tracked files differ from the commit."""

    @property
    def short(self) -> str:
        return self.commit[:SHOWN]


def checkout_of(folder: Path) -> Checkout | None:
    """Return the checkout that holds the folder; None outside of repositories, or without git."""
    try:
        top = Path(_git(folder, "rev-parse", "--show-toplevel"))
        commit, _, date = _git(folder, "show", "--no-patch", "--format=%H %cs", "HEAD").partition(" ")
        changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return Checkout(repository=_origin(folder) or top.name, commit=commit, date=date, is_changed=bool(changes))


def _origin(folder: Path) -> str:
    try:
        return _without_password(_git(folder, "config", "--get", "remote.origin.url"))
    except subprocess.SubprocessError:
        return ""


def _without_password(address: str) -> str:
    """Return the address without user and password, which CI systems put into it."""
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) if parts.scheme else address


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), "-c", "core.fsmonitor=false", *arguments],  # noqa: S607 - git is where PATH says
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=LIMIT_S,
        check=True,
    ).stdout.strip()
