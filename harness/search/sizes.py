"""Which sizes are worth drawing for one dim: a table of families, each with the bugs that live there.

Owns numbers only; how Hypothesis draws from them is `harness.search.strategies`' business.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from harness.model.op import Dim
from harness.search.launch_feedback import Hints

SMALL = 16
MULTIPLES = (1, 2, 3, 4, 8)
PRIMES = (17, 19, 23, 31, 37, 53, 61, 67, 97, 101, 127, 131, 193, 211, 257, 307, 401, 509, 521, 1009, 1021, 1031, 2039)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a size may stand in relation to: the device, the kernels' tiles, and the dims drawn before it."""

    sm_count: int
    hints: Hints
    drawn: Mapping[str, int]


def small(around: Surroundings) -> Iterable[int]:
    """One to sixteen: a kernel that has fewer rows than programs, lanes or groups."""
    del around
    return range(1, SMALL + 1)


def around_tiles(around: Surroundings) -> Iterable[int]:
    """Multiples of a tile, and one beside them: masks that are off by one, last tiles of one row."""
    return _beside(k * tile for tile in around.hints.tile_sizes for k in MULTIPLES)


def around_device(around: Surroundings) -> Iterable[int]:
    """Multiples of the SM count and one beside them, and fewer: persistent kernels with idle programs."""
    yield from _beside(k * around.sm_count for k in (1, 2, 3))
    yield from (around.sm_count // 2, around.sm_count // 4)


def per_program(around: Surroundings) -> Iterable[int]:
    """The SM count times a tile or another dim, and one beside it: the last program gets one row, or none."""
    return _beside(around.sm_count * k for k in (*around.hints.tile_sizes, *around.drawn.values()))


def around_other_dims(around: Surroundings) -> Iterable[int]:
    """Multiples of another dim and one beside them: T = G ± 1, a remainder of one row in the last group."""
    return _beside(k * size for size in around.drawn.values() for k in MULTIPLES)


def powers_of_two(around: Surroundings) -> Iterable[int]:
    """Powers of two and one beside them: what kernels round their tiles up to."""
    del around
    return _beside(1 << k for k in range(4, 20))


def odd(around: Surroundings) -> Iterable[int]:
    """Primes, and odd halves between powers of two: nothing divides them."""
    del around
    yield from PRIMES
    yield from ((3 << k) + 1 for k in range(2, 16))


def around_limits(around: Surroundings) -> Iterable[int]:
    """The largest y and z of a grid, and where sixteen bits end: launches that fail, blocks that are cut."""
    del around
    return _beside((65_535, 65_536))


FAMILIES: tuple[Callable[[Surroundings], Iterable[int]], ...] = (
    small,
    around_device,
    around_tiles,
    per_program,
    around_other_dims,
    powers_of_two,
    odd,
    around_limits,
)
"""The plainest family comes first, so that shrinking ends there."""


def families(dim: Dim, high: int, around: Surroundings) -> tuple[tuple[int, ...], ...]:
    """The sizes of each family within the dim's range and `high`, ascending; families with none are left out."""
    top = min(dim.high, high)
    within = (sorted({size for size in family(around) if dim.low <= size <= top}) for family in FAMILIES)
    return tuple(tuple(sizes) for sizes in within if sizes)


def _beside(sizes: Iterable[int]) -> Iterable[int]:
    return (size + step for size in sizes for step in (-1, 0, 1))
