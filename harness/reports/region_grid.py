"""Which rows and columns of a region's plane a plot shows, and what stands in each cell; the same for text and SVG."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from harness.model.region import Region
from harness.model.verdict import Outcome

MOST_COLUMNS = 10
MOST_ROWS = 24
BORDER = 3
"""How many tried cells a cell beside another outcome counts for, where there are more rows than room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionGrid:
    """The plot: sizes across and up, both ascending, not to scale."""

    across: str
    up: str
    columns: tuple[int, ...]
    rows: tuple[int, ...]
    cells: Mapping[tuple[int, int], Outcome]
    """By column and row; what was not tried is missing."""
    start: tuple[int, int]
    """The smallest case's column and row."""
    hidden_rows: int
    hidden_columns: int


def grid_of(region: Region, most_rows: int = MOST_ROWS) -> RegionGrid:
    """The plot of a region: rows and columns with most to show where there is no room for all."""
    across, up = region.plane
    start = (region.start[across], region.start[up])
    cells = {(point.at[across], point.at[up]): point.outcome for point in region.in_plane}
    columns = _most_telling(Counter(column for column, _ in cells), start[0], MOST_COLUMNS)
    cells = {place: outcome for place, outcome in cells.items() if place[0] in columns}
    scores = Counter(row for _, row in cells)
    for place in _borders(cells):
        scores[place[1]] += BORDER
    rows = _most_telling(scores, start[1], most_rows)
    return RegionGrid(
        across=across,
        up=up,
        columns=columns,
        rows=rows,
        cells={place: outcome for place, outcome in cells.items() if place[1] in rows},
        start=start,
        hidden_rows=len(scores) - len(rows),
        hidden_columns=len({point.at[across] for point in region.in_plane}) - len(columns),
    )


def _most_telling(scores: Mapping[int, int], home: int, most: int) -> tuple[int, ...]:
    ranked = sorted(scores, key=lambda size: (size != home, -scores[size], size))
    return tuple(sorted(ranked[:most]))


def _borders(cells: Mapping[tuple[int, int], Outcome]) -> list[tuple[int, int]]:
    """The cells whose neighbour in their column has another outcome."""
    found: list[tuple[int, int]] = []
    ordered = sorted(cells)
    for one, other in pairwise(ordered):
        if one[0] == other[0] and cells[one] is not cells[other]:
            found += [one, other]
    return found
