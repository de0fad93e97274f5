"""Variants of a case, which launch the kernels that the case launched: compiled once, run many times.

A value variant has other values and another seed.  Compiled code never depends on those.  A shape variant also has
other sizes in the dims that may grow, such as tokens, which kernels take as arguments.  Three things about such a size
can enter the compiled code, so a shape variant keeps them:

- Triton specialises an integer argument on being 1 and on being a multiple of 16.
- Host code rounds sizes up to a power of two.
- Host code divides sizes by the SM count.  A variant may differ here, and is then compiled again.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from random import Random

from harness.model.case import Case, Scale
from harness.model.op import Op
from harness.search.sort_key import values_of
from harness.search.strategies import RARE_ELEMENTS

DIVISOR = 16
SEEDS = 2**16


def shape_variants(op: Op, case: Case, count: int) -> Iterator[Case]:
    """Yield up to `count` legal cases with other growing dims, values and seeds; equal cases yield equal variants."""
    if case.scale is not Scale.USUAL:
        return
    random = Random(op.seed_digest(case))  # noqa: S311 -- reproducible, not secret
    growing = [name for name, dim in op.dims.items() if dim.grows and not dim.choices]
    for _ in range(count):
        dims = dict(case.dims)
        for name in growing:
            dims[name] = _similar_size(op, name, dims, random)
        variant = replace(case, dims=dims, values=random.choice(values_of(op)), seed=random.randrange(SEEDS))
        if op.allows(variant):
            yield variant


def value_variants(op: Op, case: Case, count: int) -> Iterator[Case]:
    """Yield up to `count` legal cases with other values and seeds; equal cases yield equal variants."""
    # The text seeds the draws: another word would draw other cases.
    random = Random(f"twins of {op.seed_digest(case)}")  # noqa: S311 -- reproducible, not secret
    for _ in range(count if case.scale is Scale.USUAL else 0):
        variant = replace(case, values=random.choice(values_of(op)), seed=random.randrange(SEEDS))
        if op.allows(variant):
            yield variant


def _similar_size(op: Op, name: str, dims: dict[str, int], random: Random) -> int:
    """Return another size with the same specialisation that rounds up to the same power of two."""
    size = dims[name]
    high = min(1 << (size - 1).bit_length(), op.largest_size(name, dims, RARE_ELEMENTS))
    low = max(op.dims[name].low, high // 2 + 1)
    sizes = _sizes_with(low, high, _specialisation(size))
    return random.choice(sizes) if sizes else size


@lru_cache(maxsize=16)
def _sizes_with(low: int, high: int, specialisation: tuple[bool, bool]) -> tuple[int, ...]:
    """Return the sizes with this specialisation.  Cached: all variants of a case ask for the same thousands."""
    return tuple(size for size in range(low, high + 1) if _specialisation(size) == specialisation)


def _specialisation(size: int) -> tuple[bool, bool]:
    """Return what Triton's JIT specialises an integer argument on."""
    return size == 1, size % DIVISOR == 0
