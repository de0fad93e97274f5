"""Cases that launch the very kernels of another one, surely or most likely: compiled once, run many times.

Twins differ in values and seed, of which no kernel knows when it is compiled.  Kin have other sizes too.  Kernels take
dims that grow, such as tokens, as arguments.  What of those enters the compiled code is whether it is 1 or a multiple
of 16, which Triton tells kernels itself, and what host code rounds up to a power of two, or divides by an SM count.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from random import Random

from harness.model.case import Case, Scale
from harness.model.op import Op
from harness.search.sort_key import values_of
from harness.search.strategies import RARE_ELEMENTS, room

DIVISOR = 16
SEEDS = 2**16


def kin(op: Op, case: Case, count: int) -> Iterator[Case]:
    """Up to `count` legal cases with other dims that grow, other values and other seeds; the same for the same case."""
    if case.scale is Scale.GIANT:
        return
    random = Random(case.digest)  # noqa: S311 -- reproducible, not secret
    growing = [name for name, dim in op.dims.items() if dim.grows and not dim.choices]
    for _ in range(count):
        dims = dict(case.dims)
        for name in growing:
            dims[name] = _like(op, name, dims, random)
        other = replace(case, dims=dims, values=random.choice(values_of(op)), seed=random.randrange(SEEDS))
        if op.allows(other):
            yield other


def twins(op: Op, case: Case, count: int) -> Iterator[Case]:
    """Up to `count` legal cases with other values and other seeds; the same for the same case."""
    random = Random(f"twins of {case.digest}")  # noqa: S311 -- reproducible, not secret
    for _ in range(count if case.scale is Scale.USUAL else 0):
        other = replace(case, values=random.choice(values_of(op)), seed=random.randrange(SEEDS))
        if op.allows(other):
            yield other


def _like(op: Op, name: str, dims: dict[str, int], random: Random) -> int:
    """Another size that the compiler cannot tell from this one, and that rounds up to the same power of two."""
    size = dims[name]
    high = min(1 << (size - 1).bit_length(), room(op, name, dims, RARE_ELEMENTS))
    low = max(op.dims[name].low, high // 2 + 1)
    alike = _alike(low, high, _arguments(size))
    return random.choice(alike) if alike else size


@lru_cache(maxsize=16)
def _alike(low: int, high: int, arguments: tuple[bool, bool]) -> tuple[int, ...]:
    """The sizes of which Triton tells kernels the same: maybe thousands, for which all kin of a case ask."""
    return tuple(size for size in range(low, high + 1) if _arguments(size) == arguments)


def _arguments(size: int) -> tuple[bool, bool]:
    """What Triton tells a kernel of an integer."""
    return size == 1, size % DIVISOR == 0
