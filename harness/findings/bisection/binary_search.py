"""Binary search for the border between bad and good members of a history, with as few probes as possible.

Pure: the caller supplies the probe.  A walk leads from a member that shows the bug to members that should not.  It does
not matter here whether it leads to older or to newer ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")


class Shown(StrEnum):
    """The result of one member of the history."""

    BAD = "bad"
    """It shows the bug."""
    GOOD = "good"
    """It was checked, and does not have the bug."""
    SKIP = "skip"
    """It could not be checked: no evidence in either direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Border:
    """The end of the bug, as positions on the walk; position 0 is a member that should be bad."""

    bad: int | None
    """The last position known to be bad before the first good one; None if position 0 is not bad."""
    good: int | None
    """The first position known to be good, if any."""
    skipped_between: tuple[int, ...] = ()
    """Skipped positions between those two: the border lies among them."""

    @property
    def is_found(self) -> bool:
        """True if the border lies between two members that were checked."""
        return self.bad is not None and self.good is not None


def find_border(walk: Sequence[T], probe: Callable[[T], Shown]) -> Border:
    """Find the border on a walk of bad members followed by good ones, any of which may be skipped.

    `probe` is called at most once for each position: first for both ends, then for the middle of the open stretch.
    If the walk changes from bad to good more than once, one of these borders is found.
    """
    if not walk or probe(walk[0]) is not Shown.BAD:
        return Border(bad=None, good=None)
    bad, good, skipped = 0, len(walk), set[int]()
    next_ = len(walk) - 1
    skips_in_a_row = 0
    while next_ is not None and next_ > bad:
        match probe(walk[next_]):
            case Shown.BAD:
                bad, skips_in_a_row = next_, 0
            case Shown.GOOD:
                good, skips_in_a_row = next_, 0
            case Shown.SKIP:
                skipped.add(next_)
                skips_in_a_row += 1
        still_open = [position for position in range(bad + 1, good) if position not in skipped]
        next_ = still_open[int(len(still_open) * _fraction(skips_in_a_row))] if still_open else None
    first_good = good if good < len(walk) else None
    return Border(bad=bad, good=first_good, skipped_between=tuple(sorted(skipped & set(range(bad + 1, good)))))


def _fraction(skips: int) -> float:
    """Return the place in the open stretch to probe after so many skips in a row: 1/2, 1/4, 3/4, 1/8 and so on.

    Members that cannot be checked come in stretches, such as commits that do not build.  This leaves them quickly.
    """
    # The van der Corput sequence: mirror the binary digits of the number at the binary point.
    number, fraction, step = skips + 1, 0.0, 0.5
    while number:
        fraction += step * (number & 1)
        number, step = number >> 1, step / 2
    return fraction
