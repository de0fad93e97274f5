"""A bisection: which stretches of a history are searched for a bug's borders, and what came of it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from harness.bisection.binary_search import Border, Shown, find_border
from harness.bisection.histories import History, Member
from harness.bisection.member_check import MemberCheck
from harness.errors import UsageError

Tell = Callable[[Member, MemberCheck | None], object]
"""Told before a look, with None, and after it."""


class Direction(StrEnum):
    """Which border is sought."""

    CAME = "came"
    """Where the bug begins: the walk leads back from a bad member."""
    WENT = "went"
    """Where it ends: the walk leads on from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of the history to search, from a member that shows the bug to one that should not."""

    direction: Direction
    walk: tuple[Member, ...]
    """The bad member first."""


class Ending(StrEnum):
    """What a search came to."""

    FOUND = "found"
    """A border, perhaps hidden among skipped members."""
    NO_BORDER = "no border"
    """Members were judged, and all show the bug, or the one that should does not."""
    NOT_JUDGED = "not judged"
    """No two members could be judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedStretch:
    """What came of one stretch."""

    stretch: Stretch
    border: Border
    begun: Shown
    """What the first of the walk showed."""

    @property
    def ending(self) -> Ending:
        """What it came to."""
        if self.border.is_found:
            return Ending.FOUND
        return Ending.NO_BORDER if self.begun is Shown.GOOD or self.border.bad else Ending.NOT_JUDGED

    @property
    def bad(self) -> Member | None:
        """The outermost that is known to be bad: the first bad one, or the last."""
        return None if self.border.bad is None else self.stretch.walk[self.border.bad]

    @property
    def good(self) -> Member | None:
        """The one beyond the border that is known to be good."""
        return None if self.border.good is None else self.stretch.walk[self.border.good]

    @property
    def hidden(self) -> tuple[Member, ...]:
        """Those between the two, all skipped, in the order of the history."""
        skipped = tuple(self.stretch.walk[position] for position in self.border.hidden)
        return skipped[::-1] if self.stretch.direction is Direction.CAME else skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisected:
    """What came of a bisection."""

    subject: str
    """What was bisected: `fla-core`."""
    looks: tuple[tuple[Member, MemberCheck], ...]
    """Where it was looked, in the order of the history."""
    members: int
    """How many there are in the stretches."""
    searched: tuple[SearchedStretch, ...]


def stretches(history: History, bad: Member, good: Member | None, fixed: Member | None) -> tuple[Stretch, ...]:
    """What to search: back to a good member that is older, on to one that is newer; without any, back to the oldest.

    Raises:
        UsageError: the members are in an order that makes no sense.
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
    found: list[Stretch] = []
    if good is not None:
        found.append(Stretch(direction=Direction.CAME, walk=history.between(good, bad)[::-1]))
    if fixed is not None:
        found.append(Stretch(direction=Direction.WENT, walk=history.between(bad, fixed)))
    return tuple(found)


def bisect(history: History, wanted: tuple[Stretch, ...], tell: Tell) -> Bisected:
    """Search each stretch, looking at each member once at most."""
    looks: dict[Member, MemberCheck] = {}

    def probe(member: Member) -> Shown:
        if member not in looks:
            tell(member, None)
            looks[member] = history.look(member)
            tell(member, looks[member])
        return looks[member].shown

    searched = tuple(
        SearchedStretch(stretch=one, begun=probe(one.walk[0]), border=find_border(one.walk, probe)) for one in wanted
    )
    members = tuple(dict.fromkeys(member for one in wanted for member in _ascending(one)))
    return Bisected(
        subject=history.subject,
        looks=tuple((member, looks[member]) for member in members if member in looks),
        members=len(members),
        searched=searched,
    )


def _ascending(stretch: Stretch) -> tuple[Member, ...]:
    return stretch.walk[::-1] if stretch.direction is Direction.CAME else stretch.walk
