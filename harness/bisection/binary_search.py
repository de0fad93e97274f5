"""Where along an ordered history a bug comes or goes, found with as few looks as can be.

Pure: what a look costs and does is its caller's business.  A history is walked from a member that shows the bug towards
members that should not; whether that leads to older or to newer ones is all the same here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")


class Shown(StrEnum):
    """What one member of the history showed."""

    BAD = "bad"
    """The bug."""
    GOOD = "good"
    """It was judged, and does not have the bug."""
    SKIP = "skip"
    """It could not be judged: no evidence in either direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Border:
    """Where the bug ends, as positions along the walk, which begins at 0 with a member that should be bad."""

    bad: int | None
    """The last that is known to be bad before the first good one; None where the walk's first is not bad."""
    good: int | None
    """The first that is known to be good; None where none was."""
    hidden: tuple[int, ...] = ()
    """What was skipped between those two: the border lies somewhere among them."""

    @property
    def is_found(self) -> bool:
        """Whether it lies between two members that were judged."""
        return self.bad is not None and self.good is not None


def find_border(walk: Sequence[T], probe: Callable[[T], Shown]) -> Border:
    """Find the border on a walk of bad members followed by good ones, each of which may turn out to be unjudgeable.

    `probe` is asked at most once about each position: first about both ends, then about the middle of what is open.
    Where the walk goes from bad to good more than once, one such border is found.
    """
    if not walk or probe(walk[0]) is not Shown.BAD:
        return Border(bad=None, good=None)
    bad, good, skipped = 0, len(walk), set[int]()
    next_ = len(walk) - 1
    in_a_row = 0
    while next_ is not None and next_ > bad:
        match probe(walk[next_]):
            case Shown.BAD:
                bad, in_a_row = next_, 0
            case Shown.GOOD:
                good, in_a_row = next_, 0
            case Shown.SKIP:
                skipped.add(next_)
                in_a_row += 1
        still_open = [position for position in range(bad + 1, good) if position not in skipped]
        next_ = still_open[int(len(still_open) * _fraction(in_a_row))] if still_open else None
    found = good if good < len(walk) else None
    return Border(bad=bad, good=found, hidden=tuple(sorted(one for one in skipped if bad < one < good)))


def _fraction(skips: int) -> float:
    """Where in the open stretch to look after so many skips in a row: at 1/2, 1/4, 3/4, 1/8 and so on.

    What cannot be judged comes in stretches, such as commits that do not build: leave those quickly.
    """
    number, fraction, step = skips + 1, 0.0, 0.5
    while number:
        fraction += step * (number & 1)
        number, step = number >> 1, step / 2
    return fraction
