"""A bisection: choose the stretches of a history to search for a bug's borders, and search them."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from harness.errors import UsageError
from harness.findings.bisection.binary_search import Border, Shown, find_border
from harness.findings.bisection.histories import History, Member
from harness.findings.bisection.member_check import MemberCheck

Report = Callable[[Member, MemberCheck | None], object]
"""Called before each check, with None, and after it."""


class Direction(StrEnum):
    """The border that is searched for."""

    INTRODUCED = "introduced"
    """The first bad member; the walk leads from a bad member to older ones."""
    FIXED = "fixed"
    """The first good member after the bad ones; the walk leads to newer ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of the history to search, from a member that shows the bug to one that should not."""

    direction: Direction
    members: tuple[Member, ...]
    """In the order of the walk, the bad member first."""


class Ending(StrEnum):
    """The result of searching one stretch."""

    FOUND = "found"
    """A border; it may lie among skipped members."""
    NO_BORDER = "no border"
    """All checked members show the bug, or the first one does not."""
    NOT_CHECKED = "not checked"
    """No two members could be checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedStretch:
    """The result of one stretch."""

    stretch: Stretch
    border: Border
    first_shown: Shown
    """The result of the first member."""

    @property
    def ending(self) -> Ending:
        if self.border.is_found:
            return Ending.FOUND
        return Ending.NO_BORDER if self.first_shown is Shown.GOOD or self.border.bad else Ending.NOT_CHECKED

    @property
    def bad(self) -> Member | None:
        """The outermost member known to be bad: the oldest or the newest bad one."""
        return None if self.border.bad is None else self.stretch.members[self.border.bad]

    @property
    def good(self) -> Member | None:
        """The member known to be good beyond the border."""
        return None if self.border.good is None else self.stretch.members[self.border.good]

    @property
    def skipped_between(self) -> tuple[Member, ...]:
        """The skipped members between the two, in the order of the history."""
        skipped = tuple(self.stretch.members[position] for position in self.border.skipped_between)
        return skipped[::-1] if self.stretch.direction is Direction.INTRODUCED else skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisected:
    """The result of a bisection."""

    subject: str
    """What was bisected: `fla-core`."""
    checks: tuple[tuple[Member, MemberCheck], ...]
    """All checks, in the order of the history."""
    members: int
    """How many members the stretches have."""
    searched: tuple[SearchedStretch, ...]


def stretches(history: History, bad: Member, good: Member | None, fixed: Member | None) -> tuple[Stretch, ...]:
    """Return the stretches to search: back to an older good member, and on to a newer one.

    Without any good member, search back to the oldest.

    Raises:
        UsageError: the members are not in a possible order.
    """
    if good == bad:
        raise UsageError(f"{history.subject} {bad.name} cannot be both good and bad")
    if good is not None and history.is_older(bad, good):
        if fixed is not None:
            raise UsageError("--good is newer than --bad, and so says what --fixed says: give one of them")
        good, fixed = None, good
    elif good is None and fixed is None:
        good = history.oldest()
    if fixed is not None and not history.is_older(bad, fixed):
        raise UsageError(f"--fixed needs one that is newer than {bad.name}, which should be bad; {fixed.name} is not")
    chosen: list[Stretch] = []
    if good is not None:
        chosen.append(Stretch(direction=Direction.INTRODUCED, members=history.between(good, bad)[::-1]))
    if fixed is not None:
        chosen.append(Stretch(direction=Direction.FIXED, members=history.between(bad, fixed)))
    return tuple(chosen)


def bisect(history: History, parts: tuple[Stretch, ...], report: Report) -> Bisected:
    """Search each stretch; check each member at most once."""
    checks: dict[Member, MemberCheck] = {}

    def probe(member: Member) -> Shown:
        if member not in checks:
            report(member, None)
            checks[member] = history.check(member)
            report(member, checks[member])
        return checks[member].shown

    searched = tuple(
        SearchedStretch(stretch=part, first_shown=probe(part.members[0]), border=find_border(part.members, probe))
        for part in parts
    )
    members = tuple(dict.fromkeys(member for stretch in parts for member in _ascending(stretch)))
    return Bisected(
        subject=history.subject,
        checks=tuple((member, checks[member]) for member in members if member in checks),
        members=len(members),
        searched=searched,
    )


def _ascending(stretch: Stretch) -> tuple[Member, ...]:
    return stretch.members[::-1] if stretch.direction is Direction.INTRODUCED else stretch.members
