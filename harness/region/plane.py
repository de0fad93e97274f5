"""The plot of a region: which columns and rows to fill, and which further points would tell rules apart."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from math import prod
from random import Random

from harness.model.region import SMS, Axis, AxisKind, Bound, Rule, Sizes
from harness.region.rules import Vocabulary
from harness.region.size_probes import related

COLUMNS = 8
COLUMNS_WHERE_ALL_ALIKE = 4
"""Of an axis on which nothing changed."""
COMMON_ROWS = 8
"""Rows that every column has."""
ROWS = 10
"""Further rows of a column, beside multiples of its own size."""
SMALL_SMS = (1, 2, 3, 4, 16, 64)
SAMPLES = 200
"""Places off the plane among which rules may disagree."""
MOST_PLACES = 1000
MOST_FACTOR = 2048
"""Of a product, the largest factor looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """Two axes through the smallest case."""

    across: Axis
    up: Axis
    start: Sizes

    def at(self, across: int, up: int) -> Sizes:
        """The place of a column and a row."""
        return {**self.start, self.across.name: across, self.up.name: up}


def plane_of(names: tuple[str, str], axes: Iterable[Axis], start: Sizes) -> Plane:
    """The plane of two axes, given as up and across; SM counts lie across, for a column shares its process."""
    by_name = {axis.name: axis for axis in axes}
    up, across = (by_name[name] for name in names)
    if up.kind is AxisKind.SM_COUNT:
        up, across = across, up
    return Plane(across=across, up=up, start=start)


def usual_plane(bounds: Sequence[Bound]) -> tuple[str, str]:
    """Tokens and SM counts, or the two axes that matter: on which a point passes.  Up first, then across."""
    dims = sorted(
        (bound for bound in bounds if bound.axis.kind is AxisKind.DIM), key=lambda bound: bound.axis.name != "T"
    )
    sms = next(bound for bound in bounds if bound.axis.kind is AxisKind.SM_COUNT)
    up = next((bound for bound in dims if bound.passed), dims[0])
    others = [bound for bound in dims if bound.passed and bound is not up]
    return up.axis.name, others[0].axis.name if others and not sms.passed else SMS


def columns(plane: Plane, bound: Bound, tried: Sequence[int], likely: Iterable[int]) -> tuple[int, ...]:
    """The columns, the smallest case's own first: what the axis was found to change at, then what else is likely."""
    axis, home = plane.across, plane.start[plane.across.name]
    borders = (bound.below.last, bound.below.next, bound.above.last, bound.above.next)
    ends = (axis.low, axis.high)
    more = SMALL_SMS if axis.kind is AxisKind.SM_COUNT else axis.choices
    wanted = dict.fromkeys(chain((home,), borders, ends, more, tried if axis.choices else (), likely))
    most = COLUMNS if bound.passed else COLUMNS_WHERE_ALL_ALIKE
    return tuple(islice((size for size in wanted if axis.has(size)), most))


def common_rows(plane: Plane, bound: Bound, tried: Sequence[int]) -> tuple[int, ...]:
    """The rows that every column has: the borders of the smallest case's column, its ends, and some between."""
    borders = (bound.below.next, bound.below.last, bound.above.last, bound.above.next)
    wanted = [plane.start[plane.up.name], *borders, plane.up.low, plane.up.high]
    inner = sorted(tried)
    wanted += inner[:: max(1, len(inner) // COMMON_ROWS)]
    return tuple(islice(dict.fromkeys(size for size in wanted if plane.up.has(size)), COMMON_ROWS))


def rows(plane: Plane, column: int, vocabulary: Vocabulary) -> tuple[int, ...]:
    """What is worth trying in one column beside the common rows: multiples of its size, of tiles, and of both."""
    at = plane.at(column, plane.start[plane.up.name])
    return tuple(islice(related(plane.up, at, sorted(vocabulary.named)), ROWS))


@dataclass(frozen=True, slots=True, kw_only=True)
class UndecidedArea:
    """Where rules may be told apart."""

    plane: Plane
    axes: tuple[Axis, ...]
    columns: tuple[int, ...]
    tried: Mapping[str, Sequence[int]]
    """By axis, the sizes that were tried on it."""
    legal: Callable[[Sizes], bool]


def places(ground: UndecidedArea, vocabulary: Vocabulary, rules: Iterable[Rule], random: Random) -> Iterator[Sizes]:
    """Legal places of the plane, some off it, and those where a threshold of one of the rules lies."""
    plane = ground.plane
    found = [
        plane.at(column, row)
        for column in ground.columns
        for row in related(plane.up, plane.at(column, plane.start[plane.up.name]), vocabulary.moduli)
    ]
    found += _thresholds(ground, rules)
    for _ in range(SAMPLES):
        anywhere = {axis.name: random.choice(ground.tried[axis.name]) for axis in ground.axes}
        likely = related(plane.up, anywhere, sorted(vocabulary.named))
        found += [anywhere, {**anywhere, plane.up.name: random.choice(likely or (anywhere[plane.up.name],))}]
    distinct = list({tuple(sizes.values()): sizes for sizes in found}.values())
    chosen = random.sample(distinct, MOST_PLACES) if len(distinct) > MOST_PLACES else distinct
    return (sizes for sizes in chosen if ground.legal(sizes))


def disputed(rules: Sequence[Rule], among: Iterable[Sizes], most: int) -> tuple[Sizes, ...]:
    """The places about which rules disagree, those first that split them most evenly, then the smaller cases."""
    weights = [1 / (1 + rank) for rank in range(len(rules))]
    split: list[tuple[float, int, Sizes]] = []
    for sizes in among:
        votes = [weight if rule.fails(sizes) else -weight for rule, weight in zip(rules, weights, strict=True)]
        if any(vote > 0 for vote in votes) and any(vote < 0 for vote in votes):
            split.append((round(abs(sum(votes)), 6), prod(sizes.values()), sizes))
    split.sort(key=lambda one: one[:2])
    return tuple(sizes for _, _, sizes in split[:most])


def _thresholds(ground: UndecidedArea, rules: Iterable[Rule]) -> Iterator[Sizes]:
    """Places on either side of the thresholds of one size, or of the product of two."""
    by_name = {axis.name: axis for axis in ground.axes}
    for condition in chain.from_iterable(rule.conditions for rule in rules):
        left = condition.left
        if not left.size or left.over or condition.right.size:
            continue
        for value in (condition.right.factor + step for step in (-1, 0, 1)):
            for size, other in _factors(value) if left.times else ((value, 1),):
                sizes = {**ground.plane.start, left.size: size, **({left.times: other} if left.times else {})}
                if all(axis.has(sizes[name]) for name, axis in by_name.items()):
                    yield sizes


def _factors(value: int) -> Iterator[tuple[int, int]]:
    return ((size, value // size) for size in range(1, min(value, MOST_FACTOR) + 1) if value % size == 0)
