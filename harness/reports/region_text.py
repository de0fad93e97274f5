"""The text of a region: sentences and a small plot, eighty columns wide, complete without colour."""

import textwrap
from collections.abc import Iterator

from rich.text import Text

from harness.findings.region.record import sentences
from harness.model.region import Ended, Region
from harness.model.verdict import Outcome
from harness.reports.region_grid import RegionGrid, grid_of

WIDTH = 80
INDENT = "  "
MARKS = {Outcome.FAIL: "#", Outcome.PASS: ".", Outcome.ABSTAIN: "?"}
COLOURS = {Outcome.FAIL: "bold red", Outcome.PASS: "green", Outcome.ABSTAIN: "yellow"}
LEGEND = "# fails   . passes   ? not checked   [ ] smallest case   blank: not tried"


def render(region: Region) -> Text:
    """Return the text with colours; `.plain` has none."""
    text = Text()
    first, *rest = sentences(region)
    for line in textwrap.wrap(first, WIDTH, break_long_words=False, break_on_hyphens=False):
        text.append(f"{line}\n", style="bold")
    if region.stop_reason is not Ended.NOT_SHOWN:
        text.append("\n")
        for line in _plot(grid_of(region)):
            text.append_text(line).append("\n")
    text.append("\n" if rest else "")
    for sentence in rest:
        wrapped = textwrap.wrap(sentence, WIDTH, subsequent_indent=INDENT, break_long_words=False)
        text.append("".join(f"{line}\n" for line in wrapped))
    return text


def _plot(grid: RegionGrid) -> Iterator[Text]:
    label = max(len(str(row)) for row in (*grid.rows, grid.up)) + len(INDENT)
    width = max(len(str(column)) for column in grid.columns) + 2
    fitting = grid.columns[: (WIDTH - label) // width]
    yield Text(f"{grid.up:>{label}}", style="cyan")
    for row in reversed(grid.rows):
        line = Text(f"{row:>{label}}", style="cyan")
        for column in fitting:
            line.append_text(_cell(grid, column, row, width))
        line.rstrip()
        yield line
    header = Text(" " * label, style="cyan")
    header.append("".join(f"{column:>{width - 1}} " for column in fitting).rstrip())
    header.append(f"  {grid.across}")
    yield header
    yield Text(f"{INDENT}{LEGEND}", style="dim")
    if grid.hidden_rows:
        yield Text(f"{INDENT}{grid.hidden_rows} further values of {grid.up} were tried", style="dim")


def _cell(grid: RegionGrid, column: int, row: int, width: int) -> Text:
    outcome = grid.cells.get((column, row))
    mark = MARKS[outcome] if outcome else " "
    shown = f"[{mark}]" if (column, row) == grid.start else f" {mark} "
    return Text(f"{shown:>{width}}", style=COLOURS[outcome] if outcome else "")
