"""A bisection as printed: a row for each member that was looked at, and a sentence that says where the borders are."""

from collections.abc import Iterator, Sequence
from typing import Any

from harness.bisection.binary_search import Shown
from harness.bisection.histories import Member
from harness.bisection.stretches import Bisected, Direction, SearchedStretch


def table(bisected: Bisected) -> Iterator[str]:
    """The rows, oldest first; commits with their subjects."""
    rows = [(bisected.subject, "", "showed", "")]
    rows += [(member.name, member.note, str(look.shown), look.words) for member, look in bisected.looks]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = [f"{cell:<{width}}" for cell, width in zip(row, (*widths, 0), strict=True) if width or cell]
        yield "  ".join(cells).rstrip()


def sentence(bisected: Bisected, bug: str) -> str:
    """Where the bug came from, where it went, or why that is not known."""
    first = bisected.searched[0]
    start = first.stretch.walk[0]
    name = f"{bisected.subject} {start.name}"
    match first.begun:
        case Shown.GOOD:
            return f"{name} does not show {bug}: there is nothing to bisect."
        case Shown.SKIP:
            return f"{name} should show {bug}, and could not be judged."
        case Shown.BAD:
            parts = [_part(one, bisected.subject) for one in bisected.searched]
            return f"{bug} {' and '.join(parts)}."


def _part(searched: SearchedStretch, subject: str) -> str:
    came = searched.stretch.direction is Direction.CAME
    bad, good = searched.bad, searched.good
    assert bad is not None
    if good is None:
        unjudged = f" ({_listed(searched.hidden)} could not be judged)" if searched.hidden else ""
        return f"is {'already' if came else 'still'} in {subject} {bad.name}{unjudged}"
    if not searched.hidden:
        if came:
            return f"came with {subject} {bad.name} ({good.name} is good)"
        return f"is fixed in {subject} {good.name} ({bad.name} is bad)"
    ends = [f"{good.name}, which is good,", f"{bad.name}, which is bad,"]
    older, newer = ends if came else reversed(ends)
    verb, skipped = "came" if came else "was fixed", _listed(searched.hidden)
    return f"{verb} between {subject} {older} and {newer} with {skipped} skipped"


def _listed(members: Sequence[Member]) -> str:
    return ", ".join(member.name for member in members)


def bisection_document(bisected: Bisected, finding: str, sentence: str) -> dict[str, Any]:
    """The bisection as plain JSON values."""
    return {
        "finding": finding,
        "subject": bisected.subject,
        "sentence": sentence,
        "looks": [
            {"name": member.name, "note": member.note, "shown": str(look.shown), "words": look.words}
            for member, look in bisected.looks
        ],
        "borders": [
            {
                "direction": str(one.stretch.direction),
                "ending": str(one.ending),
                "bad": one.bad.name if one.bad else None,
                "good": one.good.name if one.good else None,
                "skipped_between": [member.name for member in one.hidden],
            }
            for one in bisected.searched
        ],
    }
