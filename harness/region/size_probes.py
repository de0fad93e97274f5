"""Where to look along one numeric axis: which sizes are worth a point, and how to close in on a border.

A walk is a generator: it yields a size, is sent what was seen there, and decides on the next.  So it knows neither
cases nor budgets, and any function can play the kernel in a test.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from harness.model.region import SMS, Axis, AxisKind, Sizes
from harness.model.verdict import Outcome

Walk = Generator[int, Outcome, None]

TIMES = (1, 2, 3)
STEPS = (0, -1, 1)
FIRST = 4
RESIDUES = 24
"""Sizes beside multiples tried along a dim: more tells more, and each is a run."""
RESIDUES_OF_SMS = 3
"""The same of SM counts, each of which needs a fork server of its own."""
LONGEST_SCAN = 64
"""How far the next legal size may lie from the one that would be tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Road:
    """One axis through the smallest case."""

    axis: Axis
    start: Sizes
    likely: tuple[int, ...]
    """Sizes where something may change, the most likely first."""
    legal: Callable[[Sizes], bool]

    def place(self, size: int) -> Sizes:
        """The place of a size on it."""
        return {**self.start, self.axis.name: size}

    def leads_to(self, size: int) -> bool:
        """Whether a size lies on it and is legal."""
        return self.axis.has(size) and self.legal(self.place(size))

    @property
    def home(self) -> int:
        """Where the smallest case lies."""
        return self.start[self.axis.name]

    @property
    def is_costly(self) -> bool:
        """Whether each size needs a process that loads the library anew."""
        return self.axis.kind is AxisKind.SM_COUNT


def related(axis: Axis, at: Sizes, moduli: Sequence[int]) -> tuple[int, ...]:
    """The sizes on an axis that stand in a simple relation to the other sizes and the tiles, the simplest first.

    They are small multiples of a tile, of another size and of both together, what another size comes to in tiles, and
    one beside each; then the least sizes.
    """
    others = [size for name, size in at.items() if name != axis.name]
    found: list[int] = []
    for times in TIMES:
        units = [*others, *moduli, *(size * number for size in others for number in moduli)]
        units += [-(-size // number) for size in others for number in moduli]
        units += [-(-at.get(SMS, 1) // size) * number for size in others if size > 1 for number in moduli]
        found += [times * unit + step for unit in units for step in STEPS]
        found += [times * size * number - part for size in others for number in moduli for part in (size - 1, size)]
    found += range(axis.low, axis.low + FIRST)
    return tuple(size for size in dict.fromkeys(found) if axis.has(size))


def borders(road: Road) -> Walk:
    """The walk to where the failure ends on each side: both ends of the axis, outward by doubling, and closing in."""
    tried = {road.home: Outcome.FAIL}
    if road.axis.choices:
        yield from _each(road, tried, road.axis.choices)
        return
    low, high = road.axis.low, road.axis.high
    yield from _each(
        road, tried, (low + 1, *_legal(road, range(low, road.home)), *_legal(road, range(high, road.home, -1)))
    )
    if not road.is_costly:
        yield from _outward(road, tried)
    yield from _close_in(road, tried)


def residues(road: Road, known: Mapping[int, Outcome]) -> Walk:
    """The likely sizes that are not known yet, and closing in on what they show."""
    tried = dict(known)
    most = RESIDUES_OF_SMS if road.is_costly else RESIDUES
    yield from _each(road, tried, [size for size in road.likely if size not in tried][:most])
    yield from _close_in(road, tried)


def _each(road: Road, tried: dict[int, Outcome], sizes: Iterable[int]) -> Walk:
    for size in sizes:
        if size not in tried and road.leads_to(size):
            tried[size] = yield size


def _outward(road: Road, tried: dict[int, Outcome]) -> Walk:
    """By doubling steps from the smallest case, each way, until it no longer fails."""
    for side in (1, -1):
        step = 1
        while road.axis.has(size := road.home + side * step):
            sizes = _legal(road, range(size, size + side * step, side))
            yield from _each(road, tried, sizes)
            if any(tried[legal] is Outcome.PASS for legal in sizes):
                break
            step *= 2


def _legal(road: Road, sizes: range) -> tuple[int, ...]:
    """The first size that is legal, if one of the first ones is."""
    return tuple(islice((size for size in sizes[:LONGEST_SCAN] if road.leads_to(size)), 1))


def _close_in(road: Road, tried: dict[int, Outcome]) -> Walk:
    """Halve what lies between the last failing size and the first other one, on each side."""
    for side in (-1, 1):
        while (gap := _gap(road, tried, side)) and (middle := _between(road, tried, *gap)) is not None:
            tried[middle] = yield middle


def _gap(road: Road, tried: dict[int, Outcome], side: int) -> tuple[int, int] | None:
    """The last size with only failures on the way to it, and the next one tried; none where all fail to the end."""
    last = road.home
    for size in sorted((size for size in tried if (size - last) * side > 0), key=lambda size: size * side):
        if tried[size] is not Outcome.FAIL:
            return last, size
        last = size
    return None


def _between(road: Road, tried: dict[int, Outcome], one: int, other: int) -> int | None:
    """The size to try next: of the likely ones between, the middle one; else the legal one nearest to the middle."""
    low, high = min(one, other), max(one, other)
    likely = sorted(size for size in road.likely if low < size < high and size not in tried and road.leads_to(size))
    if likely:
        return likely[len(likely) // 2]
    middle = (low + high) // 2
    return next((size for size in _nearest(middle, low, high) if size not in tried and road.leads_to(size)), None)


def _nearest(middle: int, low: int, high: int) -> Iterator[int]:
    for distance in range(LONGEST_SCAN):
        for size in dict.fromkeys((middle + distance, middle - distance)):
            if low < size < high:
                yield size
