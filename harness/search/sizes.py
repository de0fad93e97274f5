"""The sizes worth drawing for one dim: a table of families, each with the bugs that it finds.

Owns numbers only.  `harness.search.strategies` decides how Hypothesis draws from them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from harness.model.op import Dim
from harness.search.launch_feedback import LaunchFeedback

SMALL = 16
MULTIPLES = (1, 2, 3, 4, 8)
PRIMES = (17, 19, 23, 31, 37, 53, 61, 67, 97, 101, 127, 131, 193, 211, 257, 307, 401, 509, 521, 1009, 1021, 1031, 2039)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeContext:
    """The numbers that a size is chosen relative to."""

    sm_count: int
    feedback: LaunchFeedback
    drawn: Mapping[str, int]
    """Sizes of the dims drawn before."""


def small(context: SizeContext) -> Iterable[int]:
    """0 to 16: fewer rows than the kernel has programs, lanes or groups."""
    del context
    return range(SMALL + 1)


def around_tiles(context: SizeContext) -> Iterable[int]:
    """Multiples of a tile ± 1: masks that are off by one, last tiles of one row."""
    return _and_neighbours(k * tile for tile in context.feedback.tile_sizes for k in MULTIPLES)


def around_device(context: SizeContext) -> Iterable[int]:
    """Multiples of the SM count ± 1, and fractions of it: persistent kernels with idle programs."""
    yield from _and_neighbours(k * context.sm_count for k in (1, 2, 3))
    yield from (context.sm_count // 2, context.sm_count // 4)


def per_program(context: SizeContext) -> Iterable[int]:
    """The SM count times a tile or another dim, ± 1: the last program gets one row, or none."""
    return _and_neighbours(context.sm_count * k for k in (*context.feedback.tile_sizes, *context.drawn.values()))


def around_other_dims(context: SizeContext) -> Iterable[int]:
    """Multiples of another dim ± 1: the last group has one row, as with T = G + 1."""
    return _and_neighbours(k * size for size in context.drawn.values() for k in MULTIPLES)


def powers_of_two(context: SizeContext) -> Iterable[int]:
    """Powers of two ± 1: kernels round their tiles up to them."""
    del context
    return _and_neighbours(1 << k for k in range(4, 20))


def odd(context: SizeContext) -> Iterable[int]:
    """Primes, and odd numbers halfway between powers of two: no tile divides them."""
    del context
    yield from PRIMES
    yield from ((3 << k) + 1 for k in range(2, 16))


def around_limits(context: SizeContext) -> Iterable[int]:
    """65,535 ± 1 and 65,536 ± 1: the largest y and z of a grid, and the end of 16-bit integers."""
    del context
    return _and_neighbours((65_535, 65_536))


FAMILIES: tuple[Callable[[SizeContext], Iterable[int]], ...] = (
    small,
    around_device,
    around_tiles,
    per_program,
    around_other_dims,
    powers_of_two,
    odd,
    around_limits,
)
"""The simplest family comes first, since Hypothesis shrinks towards it."""


def families(dim: Dim, high: int, context: SizeContext) -> tuple[tuple[int, ...], ...]:
    """Return the sizes of each family within the dim's range and `high`, ascending; empty families are left out."""
    top = min(dim.high, high)
    within = (sorted({size for size in family(context) if dim.low <= size <= top}) for family in FAMILIES)
    return tuple(tuple(sizes) for sizes in within if sizes)


def _and_neighbours(sizes: Iterable[int]) -> Iterable[int]:
    return (size + step for size in sizes for step in (-1, 0, 1))
