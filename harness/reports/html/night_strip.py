"""A strip with a cell for each night: whether a bug showed, did not show, or was not looked for."""

from collections.abc import Sequence

from harness.night.bug_history import BugHistory
from harness.reports.html.svg import Drawing, Numbers

MOST_NIGHTS = 60
"""The latest nights, which fit on a screen."""
CELL, GAP = 12, 3
SEEN, IN_VAIN, NOT_LOOKED = "touched", "tensor", "missed"


def night_strip(bug: BugHistory, nights: Sequence[str], names: Numbers) -> str:
    """Return the picture of the latest nights, the newest on the right; empty without nights."""
    shown = nights[-MOST_NIGHTS:]
    if not shown:
        return ""
    seen, looked = {*bug.nights}, {look.night for look in bug.looks}
    states = [SEEN if night in seen else IN_VAIN if night in looked else NOT_LOOKED for night in shown]
    drawing = Drawing(
        len(shown) * (CELL + GAP) - GAP,
        CELL,
        title=f"Nights from {shown[0]} to {shown[-1]}",
        text=f"seen in {states.count(SEEN)}, looked for in vain in {states.count(IN_VAIN)}, "
        f"not looked for in {states.count(NOT_LOOKED)}",
        names=names,
    )
    for number, (night, state) in enumerate(zip(shown, states, strict=True)):
        drawing.rectangle((number * (CELL + GAP), 0, CELL, CELL), state, f"{night}: {WORDS[state]}")
    return str(drawing)


WORDS = {SEEN: "seen", IN_VAIN: "looked for, and not seen", NOT_LOOKED: "not looked for"}
