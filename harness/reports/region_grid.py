"""The grid of a region's plot: rows, columns and cells, the same for text and SVG."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from harness.model.region import Region
from harness.model.verdict import Outcome

MOST_COLUMNS = 10
MOST_ROWS = 24
BORDER = 3
"""The weight of a cell at a border between outcomes, against 1 for any other, when rows are chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionGrid:
    """Sizes across and up, both ascending, not to scale."""

    across: str
    up: str
    columns: tuple[int, ...]
    rows: tuple[int, ...]
    cells: Mapping[tuple[int, int], Outcome]
    """By column and row; untried cells are missing."""
    start: tuple[int, int]
    """Column and row of the smallest case."""
    hidden_rows: int
    hidden_columns: int


def grid_of(region: Region, most_rows: int = MOST_ROWS) -> RegionGrid:
    """Return the grid; if there is not room for all, it has the rows and columns with the highest scores."""
    across, up = region.plane
    start = (region.start[across], region.start[up])
    cells = {(point.sizes[across], point.sizes[up]): point.outcome for point in region.in_plane}
    columns = _highest(Counter(column for column, _ in cells), start[0], MOST_COLUMNS)
    cells = {place: outcome for place, outcome in cells.items() if place[0] in columns}
    scores = Counter(row for _, row in cells)
    for place in _borders(cells):
        scores[place[1]] += BORDER
    rows = _highest(scores, start[1], most_rows)
    return RegionGrid(
        across=across,
        up=up,
        columns=columns,
        rows=rows,
        cells={place: outcome for place, outcome in cells.items() if place[1] in rows},
        start=start,
        hidden_rows=len(scores) - len(rows),
        hidden_columns=len({point.sizes[across] for point in region.in_plane}) - len(columns),
    )


def _highest(scores: Mapping[int, int], home: int, most: int) -> tuple[int, ...]:
    ranked = sorted(scores, key=lambda size: (size != home, -scores[size], size))
    return tuple(sorted(ranked[:most]))


def _borders(cells: Mapping[tuple[int, int], Outcome]) -> list[tuple[int, int]]:
    """Return the cells whose neighbour in the column has another outcome."""
    cells_at_border: list[tuple[int, int]] = []
    ordered = sorted(cells)
    for cell, above in pairwise(ordered):
        if cell[0] == above[0] and cells[cell] is not cells[above]:
            cells_at_border += [cell, above]
    return cells_at_border
