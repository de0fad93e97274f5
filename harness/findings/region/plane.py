"""The plane of a region's plot: the columns and rows to fill, and further points that distinguish rules."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from math import prod
from random import Random

from harness.findings.region.rules import Vocabulary
from harness.findings.region.size_probes import likely_sizes
from harness.model.region import SMS, Axis, AxisKind, Bound, Rule, Sizes

COLUMNS = 8
COLUMNS_WITHOUT_CHANGE = 4
"""Columns for an axis on which the outcome never changed."""
COMMON_ROWS = 8
"""How many rows all columns share."""
ROWS = 10
"""How many further rows a column has, at and next to multiples of its own size."""
SMALL_SMS = (1, 2, 3, 4, 16, 64)
SAMPLES = 200
"""How many points off the plane are drawn, where rules may disagree."""
MAX_CANDIDATES = 1000
MAX_FACTOR = 2048
"""The largest factor that is tried for a product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """Two axes through the smallest case."""

    across: Axis
    up: Axis
    start: Sizes

    def sizes_at(self, across: int, up: int) -> Sizes:
        return {**self.start, self.across.name: across, self.up.name: up}


def plane_of(names: tuple[str, str], axes: Iterable[Axis], start: Sizes) -> Plane:
    """Return the plane of two axes, named up and across.  SM counts lie across, since a column keeps to one process."""
    by_name = {axis.name: axis for axis in axes}
    up, across = (by_name[name] for name in names)
    if up.kind is AxisKind.SM_COUNT:
        up, across = across, up
    return Plane(across=across, up=up, start=start)


def usual_plane(bounds: Sequence[Bound]) -> tuple[str, str]:
    """Return the two axes that matter, on which a point passes; else tokens and SM counts.  Up first, then across."""
    dims = sorted(
        (bound for bound in bounds if bound.axis.kind is AxisKind.DIM), key=lambda bound: bound.axis.name != "T"
    )
    sms = next(bound for bound in bounds if bound.axis.kind is AxisKind.SM_COUNT)
    up = next((bound for bound in dims if bound.passed), dims[0])
    further = [bound for bound in dims if bound.passed and bound is not up]
    return up.axis.name, further[0].axis.name if further and not sms.passed else SMS


def columns(plane: Plane, bound: Bound, tried: Sequence[int], likely: Iterable[int]) -> tuple[int, ...]:
    """Return the columns: the smallest case's own, then the borders on the axis, then other likely sizes."""
    axis, home = plane.across, plane.start[plane.across.name]
    borders = (bound.below.last, bound.below.next, bound.above.last, bound.above.next)
    ends = (axis.low, axis.high)
    more = SMALL_SMS if axis.kind is AxisKind.SM_COUNT else axis.choices
    sizes = dict.fromkeys(chain((home,), borders, ends, more, tried if axis.choices else (), likely))
    most = COLUMNS if bound.passed else COLUMNS_WITHOUT_CHANGE
    return tuple(islice((size for size in sizes if axis.has(size)), most))


def common_rows(plane: Plane, bound: Bound, tried: Sequence[int]) -> tuple[int, ...]:
    """Return the rows that all columns share: the borders and ends of the smallest case's column, and some between."""
    borders = (bound.below.next, bound.below.last, bound.above.last, bound.above.next)
    sizes = [plane.start[plane.up.name], *borders, plane.up.low, plane.up.high]
    inner = sorted(tried)
    sizes += inner[:: max(1, len(inner) // COMMON_ROWS)]
    return tuple(islice(dict.fromkeys(size for size in sizes if plane.up.has(size)), COMMON_ROWS))


def rows(plane: Plane, column: int, vocabulary: Vocabulary) -> tuple[int, ...]:
    """Return the rows to add in one column: multiples of its size, of tiles, and of both."""
    sizes = plane.sizes_at(column, plane.start[plane.up.name])
    return tuple(islice(likely_sizes(plane.up, sizes, sorted(vocabulary.named)), ROWS))


@dataclass(frozen=True, slots=True, kw_only=True)
class UndecidedArea:
    """The points among which rules can be distinguished."""

    plane: Plane
    axes: tuple[Axis, ...]
    columns: tuple[int, ...]
    tried: Mapping[str, Sequence[int]]
    """The sizes that were tried, by axis."""
    is_allowed: Callable[[Sizes], bool]


def candidate_points(
    area: UndecidedArea, vocabulary: Vocabulary, rules: Iterable[Rule], random: Random
) -> Iterator[Sizes]:
    """Yield legal points on the plane, some off it, and some next to the thresholds of the rules."""
    plane = area.plane
    points = [
        plane.sizes_at(column, row)
        for column in area.columns
        for row in likely_sizes(plane.up, plane.sizes_at(column, plane.start[plane.up.name]), vocabulary.moduli)
    ]
    points += _thresholds(area, rules)
    for _ in range(SAMPLES):
        anywhere = {axis.name: random.choice(area.tried[axis.name]) for axis in area.axes}
        likely = likely_sizes(plane.up, anywhere, sorted(vocabulary.named))
        points += [anywhere, {**anywhere, plane.up.name: random.choice(likely or (anywhere[plane.up.name],))}]
    distinct = list({tuple(sizes.values()): sizes for sizes in points}.values())
    chosen = random.sample(distinct, MAX_CANDIDATES) if len(distinct) > MAX_CANDIDATES else distinct
    return (sizes for sizes in chosen if area.is_allowed(sizes))


def disputed(rules: Sequence[Rule], among: Iterable[Sizes], most: int) -> tuple[Sizes, ...]:
    """Return the points about which rules disagree: first those that split them most evenly, then smaller cases.

    A simpler rule has more weight.
    """
    weights = [1 / (1 + rank) for rank in range(len(rules))]
    split: list[tuple[float, int, Sizes]] = []
    for sizes in among:
        votes = [weight if rule.fails(sizes) else -weight for rule, weight in zip(rules, weights, strict=True)]
        if any(vote > 0 for vote in votes) and any(vote < 0 for vote in votes):
            split.append((round(abs(sum(votes)), 6), prod(sizes.values()), sizes))
    split.sort(key=lambda candidate: candidate[:2])
    return tuple(sizes for _, _, sizes in split[:most])


def _thresholds(area: UndecidedArea, rules: Iterable[Rule]) -> Iterator[Sizes]:
    """Yield the points on either side of each threshold of one size, or of the product of two."""
    by_name = {axis.name: axis for axis in area.axes}
    for condition in chain.from_iterable(rule.conditions for rule in rules):
        left = condition.left
        if not left.size or left.over or condition.right.size:
            continue
        for value in (condition.right.factor + step for step in (-1, 0, 1)):
            for size, other in _factors(value) if left.times else ((value, 1),):
                sizes = {**area.plane.start, left.size: size, **({left.times: other} if left.times else {})}
                if all(axis.has(sizes[name]) for name, axis in by_name.items()):
                    yield sizes


def _factors(value: int) -> Iterator[tuple[int, int]]:
    return ((size, value // size) for size in range(1, min(value, MAX_FACTOR) + 1) if value % size == 0)
