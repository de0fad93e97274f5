"""The plots: tested sizes and SM counts of each op, and figures of successive reports."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log2

from harness.model.verdict import Outcome
from harness.reports.html.svg import Drawing, Numbers
from harness.reports.report_history import Stage
from harness.search.campaign_statistics import PlanePoint
from harness.wording import counted

WIDTH, HEIGHT = 380, 260
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 12, 42
MOST_TICKS = 7
ORDER = (Outcome.PASS, Outcome.ABSTAIN, Outcome.FAIL)
"""Failures are drawn last, so that nothing hides them."""
WORDS = {Outcome.PASS: "passed", Outcome.ABSTAIN: "abstained", Outcome.FAIL: "failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """The plot of one op."""

    op: str
    cases: int
    svg: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """A logarithmic axis."""

    least: float
    most: float
    start: float
    end: float
    """In pixels."""
    values: tuple[int, ...]
    """Ascending."""
    room: float
    """Least distance of two labels, in pixels."""

    def at(self, value: float) -> float:
        return self.start + (log2(max(value, 1)) - self.least) / (self.most - self.least) * (self.end - self.start)

    @property
    def ticks(self) -> Iterator[int]:
        """The values if they are few, otherwise powers of two; labels without room are left out."""
        last: float | None = None
        for value in self.values if len(self.values) <= MOST_TICKS else self._powers:
            if last is None or abs(self.at(value) - last) >= self.room:
                last = self.at(value)
                yield value

    @property
    def _powers(self) -> Iterator[int]:
        first, last = max(0, ceil(self.least)), floor(self.most)
        yield from (2**power for power in range(first, last + 1, max(1, (last - first) // MOST_TICKS)))


def areas(sizes: Mapping[PlanePoint, int], names: Numbers) -> tuple[Area, ...]:
    """Return a plot for each op, by name."""
    by_op: dict[str, dict[PlanePoint, int]] = defaultdict(dict)
    for spot, count in sizes.items():
        by_op[spot.op][spot] = count
    return tuple(
        Area(op=op, cases=sum(spots.values()), svg=_area(op, spots, names)) for op, spots in sorted(by_op.items())
    )


def mark(drawing: Drawing, outcome: Outcome, at: tuple[float, float], size: float, tip: str = "") -> None:
    """Draw the mark of an outcome, which has its own shape and colour."""
    x, y = at
    match outcome:
        case Outcome.PASS:
            drawing.circle(x, y, size * 0.8, "passed", tip)
        case Outcome.ABSTAIN:
            drawing.path(f"M{x - size:.1f} {y + size:.1f}h{2 * size:.1f}L{x:.1f} {y - size:.1f}z", "abstained", tip)
        case Outcome.FAIL:
            arm = f"l{2 * size:.1f} {2 * size:.1f}m0 {-2 * size:.1f}l{-2 * size:.1f} {2 * size:.1f}"
            drawing.path(f"M{x - size:.1f} {y - size:.1f}{arm}", "failed", tip)


def _area(op: str, spots: Mapping[PlanePoint, int], names: Numbers) -> str:
    dim = next(iter(spots)).dim
    across = _axis({spot.size for spot in spots}, LEFT, WIDTH - RIGHT, room=40)
    up = _axis({spot.sm_count for spot in spots}, HEIGHT - BOTTOM, TOP, room=13)
    name = op.rpartition(":")[2]
    totals = {outcome: sum(n for spot, n in spots.items() if spot.outcome is outcome) for outcome in ORDER}
    description = ", ".join(f"{count} {WORDS[outcome]}" for outcome, count in totals.items() if count)
    drawing = Drawing(
        WIDTH, HEIGHT, title=f"{name}: cases over {dim or 'size'} and SM count", text=f"{description}.", names=names
    )
    _frame(drawing, across, up, dim or "size")
    for outcome in ORDER:
        for spot, count in sorted(spots.items()):
            if spot.outcome is outcome:
                times = f", {counted(count, 'case')}" if count > 1 else ""
                tip = f"{spot.dim}={spot.size:,}, {counted(spot.sm_count, 'SM')}: {WORDS[outcome]}{times}"
                place = across.at(spot.size), up.at(spot.sm_count)
                mark(drawing, outcome, place, 4 + min(2.0, log2(count) / 2), tip)
    return str(drawing)


def _axis(values: Collection[int], start: float, end: float, *, room: float) -> _Axis:
    least, most = (log2(max(1, value)) for value in (min(values), max(values)))
    edge = max(0.3, 0.05 * (most - least))
    return _Axis(least=least - edge, most=most + edge, start=start, end=end, values=tuple(sorted(values)), room=room)


def _frame(drawing: Drawing, across: _Axis, up: _Axis, dim: str) -> None:
    bottom = HEIGHT - BOTTOM
    for value in across.ticks:
        drawing.line(across.at(value), TOP, across.at(value), bottom, "rule")
        drawing.words(
            across.at(value), bottom + 15, f"{value:,}" if value < 1e6 else _short(value), "small", anchor="middle"
        )
    for value in up.ticks:
        drawing.line(LEFT, up.at(value), WIDTH - RIGHT, up.at(value), "rule")
        drawing.words(LEFT - 6, up.at(value) + 4, f"{value:,}", "small", anchor="end")
    drawing.line(LEFT, bottom, WIDTH - RIGHT, bottom, "axis")
    drawing.line(LEFT, TOP, LEFT, bottom, "axis")
    drawing.words((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, f"{dim} (log scale)", "small", anchor="middle")
    drawing.words(4, TOP + 2, "SMs", "small")


def _short(value: int) -> str:
    return f"{value / 2**20:.0f} Mi" if value < 2**30 else f"{value / 2**30:.0f} Gi"


# --- over time -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One figure of all reports."""

    name: str
    svg: str


def curves(stages: Sequence[Stage], names: Numbers) -> tuple[Curve, ...]:
    """Return the curves of findings, cases, and cases per second."""
    figures: tuple[tuple[str, Callable[[Stage], float]], ...] = (
        ("findings", lambda stage: len(stage.signatures)),
        ("cases", lambda stage: stage.cases),
        ("cases per second", lambda stage: stage.rate),
    )
    return tuple(Curve(name=name, svg=_curve(name, stages, figure, names)) for name, figure in figures)


def _curve(name: str, stages: Sequence[Stage], figure: Callable[[Stage], float], names: Numbers) -> str:
    width, height, left, bottom = 300, 120, 14, 96
    values = [figure(stage) for stage in stages]
    most = max(*values, 0.0) or 1.0
    description = ", ".join(f"{stage.name}: {_figure(value)}" for stage, value in zip(stages, values, strict=True))
    drawing = Drawing(width, height, title=f"{name} over the reports", text=description, names=names)
    step = (width - 2 * left) / max(1, len(values) - 1)
    points = [(left + number * step, bottom - value / most * 66) for number, value in enumerate(values)]
    drawing.line(left, bottom, width - left, bottom, "axis")
    drawing.path("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), "curve")
    for (x, y), value, stage in zip(points, values, stages, strict=True):
        drawing.circle(x, y, 3.5, "dot", f"{stage.name}: {_figure(value)}")
    for number in sorted({0, len(points) - 1}):
        (x, y), anchor = points[number], "start" if number == 0 else "end"
        drawing.words(x, y - 8, _figure(values[number]), "small", anchor=anchor)
        drawing.words(x, bottom + 16, "oldest" if number == 0 else "this report", "small", anchor=anchor)
    return str(drawing)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.2g}"
