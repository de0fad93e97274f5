"""What can be bisected: the releases of a package, those of Triton, the commits of a repository; each oldest first.

A history knows the order of its members and how to look at one.  Where to look is `bisection`'s business.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from packaging.version import Version

from harness.bisection.binary_search import Shown
from harness.bisection.member_check import MemberCheck, look_at
from harness.bisection.releases import offered, version_of
from harness.bisection.triton_subprocess import Orders, look_with, supported
from harness.bisection.worktrees import Commit, Repository
from harness.errors import LibraryError, UsageError, unknown
from harness.findings.replay import Recorded
from harness.findings.rerun import options_for
from harness.libraries import resolve

NO_SUCH_RELEASE = "No matching distribution found"
"""In pip's own error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberTrial:
    """How to look at one member: the case, and all that stays the same from look to look."""

    recorded: Recorded
    beside: tuple[str, ...]
    """Libraries under test that are not bisected, as `--with` names them."""
    engine: str
    time_limit_s: float
    runs: int

    def look(self, spec: str) -> MemberCheck:
        """What the case shows with this library in front of the others."""
        options = options_for(
            self.recorded, libraries=(spec, *self.beside), time_limit_s=self.time_limit_s, engine=self.engine
        )
        return look_at(self.recorded, options, self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One release or commit."""

    name: str
    """As printed: `0.5.2`, or twelve digits of a hash."""
    note: str = ""
    """The subject of a commit."""


class History(Protocol):
    """An ordered history of one thing."""

    @property
    def subject(self) -> str:
        """What it is a history of: `fla-core`."""
        ...

    def find(self, name: str, option: str) -> Member:
        """The member that an option names.

        Raises:
            UsageError: there is none.
        """
        ...

    def is_older(self, one: Member, other: Member) -> bool:
        """Whether the one came before the other."""
        ...

    def oldest(self) -> Member:
        """The first of all.

        Raises:
            UsageError: that is too far back to mean anything.
        """
        ...

    def newest(self) -> Member:
        """The last of all."""
        ...

    def between(self, older: Member, newer: Member) -> tuple[Member, ...]:
        """Both, and all between them, ascending."""
        ...

    def look(self, member: Member) -> MemberCheck:
        """What the case shows there."""
        ...


class Releases:
    """The releases of a package that pip offers; another counts where it is named: yanked, or before its release."""

    def __init__(self, package: str, trial: MemberTrial) -> None:
        """Ask pip for them.

        Raises:
            UsageError, LibraryError, MissingPart: as `releases.offered` says.
        """
        self.subject = package
        self._trial = trial
        self._known = {version: Member(name=str(version)) for version in self._listed()}

    def find(self, name: str, option: str) -> Member:
        """The release; one that is not offered is installed at once, to know that there is such a one."""
        version = version_of(name, option)
        if version not in self._known:
            self._admit(version)
            self._known[version] = Member(name=str(version))
        return self._known[version]

    def is_older(self, one: Member, other: Member) -> bool:
        """By version."""
        return Version(one.name) < Version(other.name)

    def oldest(self) -> Member:
        """The first that is offered."""
        return self._known[min(self._known)]

    def newest(self) -> Member:
        """The last that is offered."""
        return self._known[max(self._known)]

    def between(self, older: Member, newer: Member) -> tuple[Member, ...]:
        """By version."""
        first, last = Version(older.name), Version(newer.name)
        return tuple(self._known[version] for version in sorted(self._known) if first <= version <= last)

    def look(self, member: Member) -> MemberCheck:
        """Install the release apart, and look."""
        return self._trial.look(f"{self.subject}=={member.name}")

    def _listed(self) -> Iterable[Version]:
        return offered(self.subject)

    def _admit(self, version: Version) -> None:
        try:
            resolve([f"{self.subject}=={version}"])
        except LibraryError as error:
            if NO_SUCH_RELEASE not in str(error):
                raise
            raise unknown(f"release of {self.subject}", str(version), map(str, self._known)) from None


class Tritons(Releases):
    """The releases of Triton that this harness works with; another that is named is skipped."""

    def look(self, member: Member) -> MemberCheck:
        """Look from a process tree that has this Triton."""
        orders = Orders(
            recorded=self._trial.recorded,
            libraries=self._trial.beside,
            engine=self._trial.engine,
            time_limit_s=self._trial.time_limit_s,
            runs=self._trial.runs,
        )
        return look_with(Version(member.name), orders)

    def _listed(self) -> Iterable[Version]:
        return supported().filter(offered(self.subject))

    def _admit(self, version: Version) -> None:
        if supported().contains(version, prereleases=True):
            super()._admit(version)


class Commits:
    """The commits of a local repository along first parents; the packages are imported from a checkout as it is."""

    def __init__(self, path: Path, trial: MemberTrial) -> None:
        self.subject = path.resolve().name
        self._repository = Repository(path)
        self._trial = trial
        self._commits: dict[str, Commit] = {}

    def find(self, name: str, option: str) -> Member:
        """The commit that git finds under that name."""
        del option
        return self._member(self._repository.commit(name))

    def is_older(self, one: Member, other: Member) -> bool:
        """By ancestry."""
        return self._repository.is_older(self._commits[one.name], self._commits[other.name])

    def oldest(self) -> Member:
        """Not the first commit of all: nobody means that."""
        raise UsageError("--good is needed with --repo: a commit that does not show the finding yet")

    def newest(self) -> Member:
        """What is checked out."""
        return self._member(self._repository.commit("HEAD"))

    def between(self, older: Member, newer: Member) -> tuple[Member, ...]:
        """Along first parents."""
        return tuple(map(self._member, self._repository.between(self._commits[older.name], self._commits[newer.name])))

    def look(self, member: Member) -> MemberCheck:
        """Check the commit out apart, and look; one that holds nothing to import is skipped."""
        with self._repository.checked_out(self._commits[member.name]) as folder:
            try:
                return self._trial.look(str(folder))
            except UsageError as error:
                return MemberCheck(shown=Shown.SKIP, words=str(error).replace(str(folder), member.name))

    def _member(self, commit: Commit) -> Member:
        self._commits[commit.short] = commit
        return Member(name=commit.short, note=commit.subject)
