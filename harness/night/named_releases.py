"""The libraries of a search as one night tests them: what is newest tonight has a version, and a branch a commit."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from packaging.requirements import Requirement

from harness.errors import HarnessError, LibraryError
from harness.findings.bisection.releases import offered, pinned_release, requirement_of
from harness.findings.bisection.worktrees import Repository
from harness.libraries import OF_URL, SOURCES

GIT = "git+"
GIT_LIMIT_S = 60.0
COMMIT = re.compile(r"[0-9a-f]{40}")
SHOWN = 12
"""Digits of a commit that a name has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLibrary:
    """A library under test."""

    spec: str
    """As `--with` takes it.  Except for a folder, it names the same code tomorrow."""
    name: str
    """For a reader: `fla-core 0.6.0`, `my-library 1a2b3c4d5e6f`."""


def named_library(spec: str, cache: Path) -> NamedLibrary:
    """Return the library that a spec names tonight: of a release without a version the newest, of a branch its commit.

    Raises:
        UsageError, LibraryError, MissingPart: there is none, or its index or repository cannot be reached.
    """
    if Path(spec).is_dir():
        return NamedLibrary(spec=spec, name=f"{Path(spec).name} {_commit_of(Path(spec))}".strip())
    if spec.startswith(GIT):
        raise LibraryError(f"{spec}: write the name of the library before the address, as my-library @ {spec}")
    requirement = requirement_of(spec)
    url = _git_url(spec)
    if url is not None:
        name, address, branch = url
        commit = branch if COMMIT.fullmatch(branch) else _newest_commit(address, branch)
        return NamedLibrary(spec=f"{name} @ {GIT}{address}@{commit}", name=f"{name} {commit[:SHOWN]}")
    if requirement is None:
        return NamedLibrary(spec=spec, name=Path(spec).name)
    pinned = pinned_release(spec)
    if pinned is not None:
        return NamedLibrary(spec=spec, name=f"{requirement.name} {pinned}")
    allowed = list(requirement.specifier.filter(offered(requirement.name, cache)))
    if not allowed:
        raise LibraryError(f"{spec}: no release of the index is allowed by this")
    prefix = SOURCES if spec.startswith(SOURCES) else ""
    newest = str(max(allowed))
    return NamedLibrary(spec=f"{prefix}{requirement.name}=={newest}", name=f"{requirement.name} {newest}")


def _commit_of(folder: Path) -> str:
    try:
        return Repository(folder).commit("HEAD").short
    except HarnessError:
        return ""


def _git_url(spec: str) -> tuple[str, str, str] | None:
    """Return name, address and branch of `name @ git+https://…@branch`; None for another spec."""
    if not OF_URL.match(spec):
        return None
    requirement = Requirement(spec)
    if requirement.url is None or not requirement.url.startswith(GIT):
        return None
    parts = urlsplit(requirement.url.removeprefix(GIT))
    path, at, branch = parts.path.rpartition("@")  # the host may have one too: ssh://git@host
    address = urlunsplit(parts._replace(path=path if at else parts.path))
    return requirement.name, address, branch if at else "HEAD"


def _newest_commit(address: str, branch: str) -> str:
    """Return the commit of a branch or tag, as the repository has it now."""
    if address.startswith("-") or branch.startswith("-"):
        raise LibraryError(f"{address}@{branch} is no repository")
    try:
        listed = subprocess.run(
            ["git", "ls-remote", "--exit-code", address, branch],  # noqa: S607 - git is where PATH says
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=GIT_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LibraryError(f"{address} cannot be reached: {error}") from None
    commits = [line.split("\t")[0] for line in listed.stdout.splitlines()]
    if listed.returncode or not commits:
        reason = (listed.stderr.strip().splitlines() or [f"it has no branch {branch}"])[-1]
        raise LibraryError(f"{address} cannot be reached: {reason}")
    return commits[0]
