"""What the oracles over memory events share: one failure for each kernel and source line, and the words for cells.

A line of a kernel is the identity of a memory bug: events of several launches or arguments at one line are one failure.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from harness.model.picture import Amount, Shading, Spread
from harness.model.run import AccessSite, MemoryEvent, Run
from harness.model.verdict import Abstain, Fail, Pass, Verdict
from harness.oracles.endings import unwatched

E = TypeVar("E", bound=MemoryEvent)


def judge_lines(oracle: str, run: Run, events: Iterable[E], fail: Callable[[Sequence[E]], Fail]) -> tuple[Verdict, ...]:
    """One failure for each line with events; without any, a pass if the run was watched to its end."""
    lines: dict[tuple[str, str], list[E]] = {}
    for event in events:
        lines.setdefault((event.site.kernel, place_of(event.site)), []).append(event)
    if lines:
        return tuple(fail(group) for group in lines.values())
    if reason := unwatched(run):
        return (Abstain(oracle=oracle, reason=reason),)
    return (Pass(oracle=oracle),)


def place_of(site: AccessSite) -> str:
    """The source line where it is known, otherwise the argument."""
    return str(site.source) if site.source else site.argument


def cell(argument: str, index: tuple[int, ...]) -> str:
    """One cell as a reader of the kernel writes it: `dx[2, 0]`."""
    return f"{argument}[{', '.join(map(str, index))}]"


def cells(argument: str, first_cells: Sequence[tuple[int, ...]], count: int) -> str:
    """The first cell and how many more: `dx[2, 0] and 31 more cells`."""
    first = cell(argument, first_cells[0]) if first_cells else f"a cell of {argument}"
    match count:
        case 1:
            return first
        case 2:
            return f"{first} and 1 more cell"
        case more:
            return f"{first} and {more - 1} more cells"


def shading(
    tensor: str, says: str, spread: Spread | None, first_cells: Sequence[tuple[int, ...]]
) -> tuple[Shading, ...]:
    """The picture of such cells; none where the run did not keep where they lie."""
    if spread is None:
        return ()
    first = first_cells[0] if first_cells else ()
    return (Shading(tensor=tensor, says=says, amount=Amount.SHARE, spread=spread, worst=first),)


def where(group: Sequence[MemoryEvent]) -> str:
    """The end of a message: ` (layernorm.py:431)`, with the number of launches where there are several."""
    launches = len({event.site.launch for event in group})
    place = place_of(group[0].site)
    return f" ({place})" if launches == 1 else f" ({place}, in {launches} launches)"


def were(count: int) -> str:
    """`was` or `were`."""
    return "was" if count == 1 else "were"
