"""The plot of a region as SVG: one self-contained string without script, legible from a width of 400 pixels.

Outcomes differ in shape as well as in colour.  Colours follow the light or dark setting of the reader.
"""

from collections.abc import Iterator
from html import escape

from harness.findings.region.record import sentences
from harness.model.region import Ended, Region
from harness.model.verdict import Outcome
from harness.reports.region_grid import RegionGrid, grid_of

WIDTH = 400
LEFT, TOP, BOTTOM = 64, 22, 46
ROW = 15
WIDEST = 44
MARK = 4.5

STYLE = """
.region-plot { --text: #1f2328; --faint: #d0d7de; --fail: #cf222e; --pass: #1a7f37; --unknown: #8250df; }
@media (prefers-color-scheme: dark) {
  .region-plot { --text: #e6edf3; --faint: #444c56; --fail: #ff7b72; --pass: #56d364; --unknown: #d2a8ff; }
}
.region-plot text { fill: var(--text); font: 11px ui-sans-serif, system-ui, sans-serif; }
.region-plot .region-axis { font-weight: 600; }
.region-plot .region-line { stroke: var(--faint); stroke-width: 0.5; }
.region-plot .region-fail { fill: var(--fail); }
.region-plot .region-pass { fill: none; stroke: var(--pass); stroke-width: 1.5; }
.region-plot .region-unknown { fill: var(--unknown); }
.region-plot .region-start { fill: none; stroke: var(--text); stroke-width: 1.2; }
"""

WORDS = {Outcome.FAIL: "fails", Outcome.PASS: "passes", Outcome.ABSTAIN: "could not be checked"}


def svg(region: Region) -> str:
    """Return the plot, with the first sentence as its description; empty if there is no region."""
    return "" if region.stop_reason is Ended.NOT_SHOWN else "\n".join(_drawn(region, grid_of(region)))


def _drawn(region: Region, grid: RegionGrid) -> Iterator[str]:
    height = TOP + ROW * len(grid.rows) + BOTTOM
    name = f"region-{escape(region.finding, quote=True)}"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="region-plot" role="img" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" style="max-width: 100%; height: auto" '
        f'aria-labelledby="{name}-title {name}-desc">'
    )
    yield f'<title id="{name}-title">Where {escape(str(region.signature))} shows</title>'
    yield f'<desc id="{name}-desc">{escape(sentences(region)[0])}</desc>'
    yield f"<style>{STYLE}</style>"
    yield from _axes(grid, height)
    for (column, row), outcome in sorted(grid.cells.items()):
        label = f"{grid.up}={row}, {grid.across}={column}: {WORDS[outcome]}"
        yield f"<g><title>{escape(label)}</title>{_mark(outcome, *_middle(grid, column, row))}</g>"
    x, y = _middle(grid, *grid.start)
    yield f'<rect class="region-start" x="{x - 7:.1f}" y="{y - 7:.1f}" width="14" height="14" rx="2"/>'
    yield from _legend(height)
    yield "</svg>"


def _axes(grid: RegionGrid, height: int) -> Iterator[str]:
    yield f'<text class="region-axis" x="{LEFT - 8}" y="{TOP - 8}" text-anchor="end">{escape(grid.up)}</text>'
    for row in grid.rows:
        _, y = _middle(grid, grid.start[0], row)
        yield f'<line class="region-line" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - 8}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{row}</text>'
    for column in grid.columns:
        x, _ = _middle(grid, column, grid.start[1])
        yield f'<text x="{x:.1f}" y="{height - BOTTOM + 14}" text-anchor="middle">{column}</text>'
    across = escape(grid.across)
    yield f'<text class="region-axis" x="{WIDTH - 8}" y="{height - BOTTOM + 14}" text-anchor="end">{across}</text>'


def _middle(grid: RegionGrid, column: int, row: int) -> tuple[float, float]:
    """Return the centre of a cell."""
    step = min(WIDEST, (WIDTH - LEFT - 40) / len(grid.columns))
    up = len(grid.rows) - 1 - grid.rows.index(row)
    return LEFT + step * (grid.columns.index(column) + 0.5), TOP + ROW * (up + 0.5)


def _mark(outcome: Outcome, x: float, y: float) -> str:
    match outcome:
        case Outcome.FAIL:
            side = 2 * MARK
            return f'<rect class="region-fail" x="{x - MARK:.1f}" y="{y - MARK:.1f}" width="{side}" height="{side}"/>'
        case Outcome.PASS:
            return f'<circle class="region-pass" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
        case Outcome.ABSTAIN:
            return f'<text class="region-unknown" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">?</text>'


def _legend(height: int) -> Iterator[str]:
    y = height - 12
    for x, outcome in ((14, Outcome.FAIL), (72, Outcome.PASS), (140, Outcome.ABSTAIN)):
        yield _mark(outcome, x, y - 4)
        yield f'<text x="{x + 10}" y="{y}">{WORDS[outcome]}</text>'
    yield f'<rect class="region-start" x="272" y="{y - 11}" width="14" height="14" rx="2"/>'
    yield f'<text x="292" y="{y}">smallest case</text>'
