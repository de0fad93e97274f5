"""Size probes: choose the sizes to try along one numeric axis, and close in on the borders of the failure.

A probe is a generator.  It yields a size, receives the outcome at that size, and decides on the next.  It knows neither
cases nor budgets, so a test can replace the kernel by any function.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from harness.model.region import SMS, Axis, AxisKind, Sizes
from harness.model.verdict import Outcome

SizeProbe = Generator[int, Outcome, None]

TIMES = (1, 2, 3)
STEPS = (0, -1, 1)
FIRST = 4
MAX_RESIDUES = 24
"""How many likely sizes are tried along a dim; each is a run."""
MAX_SM_RESIDUES = 3
"""The same for SM counts, each of which needs a fork server of its own."""
LONGEST_SCAN = 64
"""How far from the wanted size the next legal one is searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisLine:
    """One axis through the smallest case."""

    axis: Axis
    start: Sizes
    likely: tuple[int, ...]
    """Sizes at which the outcome may change, the most likely first."""
    is_allowed: Callable[[Sizes], bool]

    def sizes_at(self, size: int) -> Sizes:
        return {**self.start, self.axis.name: size}

    def is_legal(self, size: int) -> bool:
        return self.axis.has(size) and self.is_allowed(self.sizes_at(size))

    @property
    def home(self) -> int:
        """The size of the smallest case."""
        return self.start[self.axis.name]

    @property
    def is_costly(self) -> bool:
        """True if each size needs a new process that loads the library."""
        return self.axis.kind is AxisKind.SM_COUNT


def likely_sizes(axis: Axis, sizes: Sizes, moduli: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes on an axis that have a simple relation to the other sizes and the tiles, the simplest first.

    These are small multiples of a tile, of another size, and of both together.  They are also another size counted in
    tiles, the neighbours of all these, and the smallest sizes.
    """
    around = [size for name, size in sizes.items() if name != axis.name]
    likely: list[int] = []
    for times in TIMES:
        units = [*around, *moduli, *(size * number for size in around for number in moduli)]
        units += [-(-size // number) for size in around for number in moduli]
        units += [-(-sizes.get(SMS, 1) // size) * number for size in around if size > 1 for number in moduli]
        likely += [times * unit + step for unit in units for step in STEPS]
        likely += [times * size * number - part for size in around for number in moduli for part in (size - 1, size)]
    likely += range(axis.low, axis.low + FIRST)
    return tuple(size for size in dict.fromkeys(likely) if axis.has(size))


def border_probe(line: AxisLine) -> SizeProbe:
    """Find where the failure ends on each side: try both ends, then double the distance outward, then close in."""
    tried = {line.home: Outcome.FAIL}
    if line.axis.choices:
        yield from _try_each(line, tried, line.axis.choices)
        return
    low, high = line.axis.low, line.axis.high
    yield from _try_each(
        line,
        tried,
        (low + 1, *_first_legal(line, range(low, line.home)), *_first_legal(line, range(high, line.home, -1))),
    )
    if not line.is_costly:
        yield from _outward(line, tried)
    yield from _close_in(line, tried)


def residue_probe(line: AxisLine, known: Mapping[int, Outcome]) -> SizeProbe:
    """Try the likely sizes that are not known yet, and close in on the borders that they show."""
    tried = dict(known)
    most = MAX_SM_RESIDUES if line.is_costly else MAX_RESIDUES
    yield from _try_each(line, tried, [size for size in line.likely if size not in tried][:most])
    yield from _close_in(line, tried)


def _try_each(line: AxisLine, tried: dict[int, Outcome], sizes: Iterable[int]) -> SizeProbe:
    for size in sizes:
        if size not in tried and line.is_legal(size):
            tried[size] = yield size


def _outward(line: AxisLine, tried: dict[int, Outcome]) -> SizeProbe:
    """Double the distance from the smallest case, in each direction, until a size passes."""
    for side in (1, -1):
        step = 1
        while line.axis.has(size := line.home + side * step):
            sizes = _first_legal(line, range(size, size + side * step, side))
            yield from _try_each(line, tried, sizes)
            if any(tried[legal] is Outcome.PASS for legal in sizes):
                break
            step *= 2


def _first_legal(line: AxisLine, sizes: range) -> tuple[int, ...]:
    """Return the first legal size as a tuple of one, or an empty tuple if none is near."""
    return tuple(islice((size for size in sizes[:LONGEST_SCAN] if line.is_legal(size)), 1))


def _close_in(line: AxisLine, tried: dict[int, Outcome]) -> SizeProbe:
    """Bisect between the last failing size and the first other one, on each side."""
    for side in (-1, 1):
        while (gap := _gap(line, tried, side)) and (middle := _between(line, tried, *gap)) is not None:
            tried[middle] = yield middle


def _gap(line: AxisLine, tried: dict[int, Outcome], side: int) -> tuple[int, int] | None:
    """Return the last size with only failures up to it, and the next one tried; None if all fail to the end."""
    last = line.home
    for size in sorted((size for size in tried if (size - last) * side > 0), key=lambda size: size * side):
        if tried[size] is not Outcome.FAIL:
            return last, size
        last = size
    return None


def _between(line: AxisLine, tried: dict[int, Outcome], first: int, second: int) -> int | None:
    """Return the size to try next: the middle one of the likely sizes, or else the legal one nearest the middle."""
    low, high = min(first, second), max(first, second)
    likely = sorted(size for size in line.likely if low < size < high and size not in tried and line.is_legal(size))
    if likely:
        return likely[len(likely) // 2]
    middle = (low + high) // 2
    return next((size for size in _nearest(middle, low, high) if size not in tried and line.is_legal(size)), None)


def _nearest(middle: int, low: int, high: int) -> Iterator[int]:
    for distance in range(LONGEST_SCAN):
        for size in dict.fromkeys((middle + distance, middle - distance)):
            if low < size < high:
                yield size
