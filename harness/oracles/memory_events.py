"""The shared parts of oracles that judge memory events: one failure for each kernel and source line, and messages.

The line of a kernel identifies a memory bug.  Events of several launches or arguments at one line are one failure.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from harness.model.picture import Amount, Shading, Spread
from harness.model.run import AccessSite, MemoryEvent, Run
from harness.model.verdict import Abstain, Fail, Pass, Verdict
from harness.oracles.endings import untraced

E = TypeVar("E", bound=MemoryEvent)


def judge_lines(
    oracle: str,
    run: Run,
    events: Iterable[E],
    fail: Callable[[Sequence[E]], Fail],
    unseen: Callable[[Run], str | None] = untraced,
) -> tuple[Verdict, ...]:
    """Fail once for each line with events; without events, pass unless `unseen` says why that proves nothing."""
    lines: dict[tuple[str, str], list[E]] = {}
    for event in events:
        lines.setdefault((event.site.kernel, place_of(event.site)), []).append(event)
    if lines:
        return tuple(fail(group) for group in lines.values())
    if reason := unseen(run):
        return (Abstain(oracle=oracle, reason=reason),)
    return (Pass(oracle=oracle),)


def place_of(site: AccessSite) -> str:
    """Return the source line, or the argument if the line is unknown."""
    return str(site.source) if site.source else site.argument


def cell(argument: str, index: tuple[int, ...]) -> str:
    """Return one cell as source code has it: `dx[2, 0]`."""
    return f"{argument}[{', '.join(map(str, index))}]"


def cells(argument: str, first_cells: Sequence[tuple[int, ...]], count: int) -> str:
    """Return the first cell and the number of others: `dx[2, 0] and 31 more cells`."""
    first = cell(argument, first_cells[0]) if first_cells else f"a cell of {argument}"
    match count:
        case 1:
            return first
        case 2:
            return f"{first} and 1 more cell"
        case more:
            return f"{first} and {more - 1} more cells"


def shading(
    tensor: str, caption: str, spread: Spread | None, first_cells: Sequence[tuple[int, ...]]
) -> tuple[Shading, ...]:
    """Return a picture of these cells; nothing if the run did not keep their positions."""
    if spread is None:
        return ()
    first = first_cells[0] if first_cells else ()
    return (Shading(tensor=tensor, caption=caption, amount=Amount.SHARE, spread=spread, worst=first),)


def at_line(group: Sequence[MemoryEvent]) -> str:
    """Return the end of a message: ` (layernorm.py:431)`, with the number of launches if there are several."""
    launches = len({event.site.launch for event in group})
    place = place_of(group[0].site)
    return f" ({place})" if launches == 1 else f" ({place}, in {launches} launches)"


def was_or_were(count: int) -> str:
    return "was" if count == 1 else "were"
