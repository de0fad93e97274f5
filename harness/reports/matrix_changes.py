"""The text of what changed since a baseline, in 80 columns."""

from collections import Counter
from collections.abc import Iterator

from harness.matrix.baseline import Changes, Figure, FigureChange
from harness.reports.matrix_text import short_config
from harness.wording import counted

MOST_LINES = 12
NOUNS = {
    Figure.SPILLS: "bytes of local memory a thread",
    Figure.SHARED: "bytes of shared memory",
    Figure.REGISTERS: "registers a thread",
    Figure.SCRATCH: "bytes of scratch memory a program",
    Figure.FITS: "configs that cannot run",
}


def change_lines(changes: Changes) -> Iterator[str]:
    """Yield a line for each figure, then its worst changes."""
    yield f"since the baseline: {changes.compared} cells compared, {len(changes.new)} new, {len(changes.gone)} gone"
    for figure, noun in NOUNS.items():
        same = [change for change in changes.changed if change.figure is figure]
        worse = [change for change in same if change.is_worse]
        if same:
            yield f"  {noun}: {counted(len(worse), 'cell')} worse, {len(same) - len(worse)} better"
            yield from _worst(worse)
    if not changes.changed:
        yield "  no figure has changed"


def _worst(worse: list[FigureChange]) -> Iterator[str]:
    """Yield the largest changes by kernel and config, each with its devices."""
    groups: dict[tuple[str, str, int, int], list[FigureChange]] = {}
    for change in worse:
        groups.setdefault((change.kernel, change.config, change.before, change.now), []).append(change)
    ordered = sorted(groups.items(), key=lambda item: item[0][2] - item[0][3])
    for (kernel, config, before, now), same in ordered[:MOST_LINES]:
        devices = ", ".join(Counter(change.device for change in same))
        figures = "" if same[0].figure is Figure.FITS else f" {before} -> {now}"
        yield f"    {kernel}{figures} ({short_config(config)}) on {devices}"
        if same[0].why:
            yield f"      {same[0].why}"
    if len(ordered) > MOST_LINES:
        yield f"    … and {len(ordered) - MOST_LINES} more"
