"""The table of a bisection, its conclusion in one sentence, and its document."""

from collections.abc import Iterator, Mapping, Sequence

from harness.documents.bisection import BisectedBorder, BisectionDocument, CheckedMember
from harness.findings.bisection.binary_search import Shown
from harness.findings.bisection.histories import Member
from harness.findings.bisection.stretches import Bisected, Direction, SearchedStretch


def table(bisected: Bisected) -> Iterator[str]:
    """Yield a row for each member that was checked, oldest first; commits have their subjects."""
    rows = [(bisected.subject, "", "showed", "")]
    rows += [(member.name, member.note, str(look.shown), look.explanation) for member, look in bisected.checks]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = [f"{cell:<{width}}" for cell, width in zip(row, (*widths, 0), strict=True) if width or cell]
        yield "  ".join(cells).rstrip()


def sentence(bisected: Bisected, bug: str) -> str:
    """Return where the bug came and where it went, or why that is unknown."""
    first = bisected.searched[0]
    start = first.stretch.members[0]
    name = f"{bisected.subject} {start.name}"
    match first.first_shown:
        case Shown.GOOD:
            return f"{name} does not show {bug}: there is nothing to bisect."
        case Shown.SKIP:
            return f"{name} should show {bug}, and could not be checked."
        case Shown.BAD:
            parts = [_part(part, bisected.subject) for part in bisected.searched]
            return f"{bug} {' and '.join(parts)}."


def _part(searched: SearchedStretch, subject: str) -> str:
    came = searched.stretch.direction is Direction.INTRODUCED
    bad, good = searched.bad, searched.good
    assert bad is not None
    if good is None:
        skipped = f" ({_listed(searched.skipped_between)} could not be checked)" if searched.skipped_between else ""
        return f"is {'already' if came else 'still'} in {subject} {bad.name}{skipped}"
    if not searched.skipped_between:
        if came:
            return f"came with {subject} {bad.name} ({good.name} is good)"
        return f"is fixed in {subject} {good.name} ({bad.name} is bad)"
    ends = [f"{good.name}, which is good,", f"{bad.name}, which is bad,"]
    older, newer = ends if came else reversed(ends)
    verb, skipped = "came" if came else "was fixed", _listed(searched.skipped_between)
    return f"{verb} between {subject} {older} and {newer} with {skipped} skipped"


def _listed(members: Sequence[Member]) -> str:
    return ", ".join(member.name for member in members)


def bisection_document(
    bisected: Bisected, finding: str, conclusion: str, versions: Mapping[str, str]
) -> BisectionDocument:
    """Return the document of a bisection."""
    return BisectionDocument(
        finding=finding,
        subject=bisected.subject,
        conclusion=conclusion,
        checked=tuple(
            CheckedMember(name=member.name, note=member.note, result=str(look.shown), explanation=look.explanation)
            for member, look in bisected.checks
        ),
        borders=tuple(
            BisectedBorder(
                direction=str(part.stretch.direction),
                ending=str(part.ending),
                bad=part.bad.name if part.bad else None,
                good=part.good.name if part.good else None,
                skipped_between=tuple(member.name for member in part.skipped_between),
            )
            for part in bisected.searched
        ),
        versions=versions,
    )
