"""Histories that can be bisected: the releases of a package, those of Triton, and the commits of a repository.

A history knows the order of its members and how to check one.  `stretches` decides which members to check.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from packaging.version import Version

from harness.errors import LibraryError, UsageError, unknown
from harness.findings.bisection.binary_search import Shown
from harness.findings.bisection.member_check import MemberCheck, MemberTrial
from harness.findings.bisection.releases import offered, version_of
from harness.findings.bisection.triton_subprocess import check_with_triton
from harness.findings.bisection.worktrees import Commit, Repository
from harness.findings.triton_process import supported
from harness.libraries import resolve
from harness.settings import Settings

NO_SUCH_RELEASE = "No matching distribution found"
"""Part of pip's error message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One release or commit."""

    name: str
    """As printed: `0.5.2`, or the first twelve digits of a hash."""
    note: str = ""
    """The subject of a commit."""


class History(Protocol):
    """An ordered history of one thing."""

    @property
    def subject(self) -> str:
        """The package or repository, such as `fla-core`."""
        ...

    def find(self, name: str, option: str) -> Member:
        """Return the member that an option names.

        Raises:
            UsageError: no such member exists.
        """
        ...

    def is_older(self, first: Member, second: Member) -> bool: ...

    def oldest(self) -> Member:
        """Return the first member.

        Raises:
            UsageError: the first member is too old to be useful.
        """
        ...

    def newest(self) -> Member: ...

    def between(self, older: Member, newer: Member) -> tuple[Member, ...]:
        """Return both members and all between them, oldest first."""
        ...

    def check(self, member: Member) -> MemberCheck: ...


class Releases:
    """The releases of a package that pip offers.

    A yanked release or a pre-release counts too if an option names it.
    """

    def __init__(self, package: str, trial: MemberTrial, settings: Settings) -> None:
        """List the releases with pip.

        Raises:
            UsageError, LibraryError, MissingPart: see `releases.offered`.
        """
        self.subject = package
        self._trial = trial
        self._settings = settings
        self._known = {version: Member(name=str(version)) for version in self._listed()}

    def find(self, name: str, option: str) -> Member:
        """Return the release.  One that pip does not list is installed at once, to check that it exists."""
        version = version_of(name, option)
        if version not in self._known:
            self._require_release(version)
            self._known[version] = Member(name=str(version))
        return self._known[version]

    def is_older(self, first: Member, second: Member) -> bool:
        return Version(first.name) < Version(second.name)

    def oldest(self) -> Member:
        return self._known[min(self._known)]

    def newest(self) -> Member:
        return self._known[max(self._known)]

    def between(self, older: Member, newer: Member) -> tuple[Member, ...]:
        first, last = Version(older.name), Version(newer.name)
        return tuple(self._known[version] for version in sorted(self._known) if first <= version <= last)

    def check(self, member: Member) -> MemberCheck:
        """Install the release in a folder of its own, and check the case with it."""
        return self._trial.check(self._settings, f"{self.subject}=={member.name}")

    def _listed(self) -> Iterable[Version]:
        return offered(self.subject, self._settings.cache)

    def _require_release(self, version: Version) -> None:
        try:
            resolve([f"{self.subject}=={version}"], cache=self._settings.cache, report=_say_nothing)
        except LibraryError as error:
            if NO_SUCH_RELEASE not in str(error):
                raise
            raise unknown(f"release of {self.subject}", str(version), map(str, self._known)) from None


class Tritons(Releases):
    """The releases of Triton that the harness supports; any other that an option names is skipped."""

    def check(self, member: Member) -> MemberCheck:
        """Check the case in a process tree that has this Triton."""
        return check_with_triton(Version(member.name), self._trial, self._settings.cache)

    def _listed(self) -> Iterable[Version]:
        return supported().filter(offered(self.subject, self._settings.cache))

    def _require_release(self, version: Version) -> None:
        if supported().contains(version, prereleases=True):
            super()._require_release(version)


class Commits:
    """The commits of a local repository along first parents; packages are imported from a checkout, not installed."""

    def __init__(self, path: Path, trial: MemberTrial, settings: Settings) -> None:
        self.subject = path.resolve().name
        self._repository = Repository(path)
        self._trial = trial
        self._settings = settings
        self._commits: dict[str, Commit] = {}

    def find(self, name: str, option: str) -> Member:
        """Return the commit that git finds under that name."""
        del option
        return self._member(self._repository.commit(name))

    def is_older(self, first: Member, second: Member) -> bool:
        return self._repository.is_older(self._commits[first.name], self._commits[second.name])

    def oldest(self) -> Member:
        """Refuse: the first commit of a repository is never meant."""
        raise UsageError("--good is needed with --repo: a commit that does not show the finding yet")

    def newest(self) -> Member:
        return self._member(self._repository.commit("HEAD"))

    def between(self, older: Member, newer: Member) -> tuple[Member, ...]:
        return tuple(map(self._member, self._repository.between(self._commits[older.name], self._commits[newer.name])))

    def check(self, member: Member) -> MemberCheck:
        """Check the commit out into a folder of its own, and check the case with it.  Skip it if it has no package."""
        with self._repository.checked_out(self._commits[member.name]) as folder:
            try:
                return self._trial.check(self._settings, str(folder))
            except UsageError as error:
                return MemberCheck(shown=Shown.SKIP, explanation=str(error).replace(str(folder), member.name))

    def _member(self, commit: Commit) -> Member:
        self._commits[commit.short] = commit
        return Member(name=commit.short, note=commit.subject)


def _say_nothing(line: str) -> None:
    """Print nothing: the command says which release it looks at."""
    del line
