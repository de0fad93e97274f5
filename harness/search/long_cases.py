"""Long cases: one dim is long, past the limits of 16 bits and of a grid's axes, and the others are small.

Host code may count rows in 16 bits, or put them on an axis of a grid that has 65,535 programs.  Each long case is made
from a case of usual size.  Owns the choice of the dim, of its length and of the other sizes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import prod

from hypothesis import strategies as st

from harness.model.case import Case, Scale
from harness.model.op import Dim, Op

ONE_IN = 24
"""One case in so many is long, if a dim of the op may be."""
SHORTEST = 32_767
"""The largest signed integer of 16 bits."""
MAX_ELEMENTS = 2**22
"""The usual limit for the product of all dims, and for every input: it bounds memory and time."""
MOST_ELEMENTS = 2**24
"""The limit for a dim whose rows are so wide that no long case is within the usual one."""
NEAR_16_BITS = (32_767, 32_768, 32_769, 65_535, 65_536, 65_537)
"""The ends of 16-bit integers, and the largest y and z of a grid, each ± 1."""
FURTHER = (2**20 - 1, 2**20, 2**20 + 1, 65_535 * 32 + 1, 65_535 * 64 + 1)
"""2^20 ± 1: more than 65,535 tiles of 16.  Then one tile of 32, and of 64, more than a grid's y may have."""
LENGTHS = (*NEAR_16_BITS * 3, *FURTHER)
"""Lengths to draw from.  Those near 16 bits come three times, since they find most and cost least."""
SIZES = st.sampled_from((1, 2, 3, 4, 8, 16, 17, 32, 64))
"""Sizes of the other dims."""
LIMITS = (64, 8, 4, 2, 1)
"""Limits for them: the first for which a long case is small enough and legal."""
EARLY_LENGTHS = (65_537, 65_536, 32_769, 32_768)
EARLY_LIMITS = (8, 4, 2, 1)
"""The length and the other sizes of an early case: the first that are legal."""


def long_dims(op: Op) -> tuple[str, ...]:
    """Return the dims that may be long."""
    return tuple(name for name, dim in op.dims.items() if (not dim.choices or dim.grows) and _longest(dim) >= SHORTEST)


def why_never_long(op: Op, simple: Iterable[Case]) -> str:
    """Return why no long case was made of the simple cases of an op; empty if one can be."""
    names = long_dims(op)
    if not names:
        return f"no dim may exceed {SHORTEST - 1:,}"
    if not any(_lengths(op, name) for name in names):
        return f"{SHORTEST:,} rows have more than {MOST_ELEMENTS:,} elements"
    is_possible = any(next(early_long_cases(op, case), None) for case in simple)
    return "" if is_possible else "`where` allows none that was tried"


@st.composite
def long_cases(draw: st.DrawFn, op: Op, usual: Case) -> Case:
    """Draw the case with one long dim, or the case itself if that is not legal."""
    name = draw(st.sampled_from(long_dims(op)))
    lengths = _lengths(op, name)
    if not lengths:
        return usual
    length = draw(st.sampled_from(lengths))
    sizes = {other: usual.dims[other] if dim.choices else draw(SIZES) for other, dim in op.dims.items()}
    others = (*(_smaller(op, most, sizes) for most in LIMITS), _least(op))
    return next(_made_long(op, usual, name, ({**dims, name: length} for dims in others)), usual)


def early_long_cases(op: Op, simple: Case) -> Iterator[Case]:
    """Yield one long case for each dim that may be long."""
    for name in long_dims(op):
        others = (*(_smaller(op, most) for most in EARLY_LIMITS), _least(op))
        sizes = ({**dims, name: length} for dims in others for length in EARLY_LENGTHS)
        if (long := next(_made_long(op, simple, name, sizes), None)) is not None:
            yield long


def _made_long(op: Op, usual: Case, name: str, sizes: Iterable[Mapping[str, int]]) -> Iterator[Case]:
    """Yield the case with those of the sizes that are small enough and legal; `name` is the long dim."""
    limit = _limit(op, name)
    fitting = (dims for dims in sizes if _fits(op, dims, name, limit))
    return filter(op.allows, (replace(usual, dims=dims, scale=Scale.LONG) for dims in fitting))


def _lengths(op: Op, name: str) -> list[int]:
    """Return the lengths at which the op is small enough if its other dims are at their least."""
    least, limit = _least(op), _limit(op, name)
    return [length for length in LENGTHS if _fits(op, {**least, name: length}, name, limit)]


def _limit(op: Op, name: str) -> int:
    """Return the largest number of elements of a case in which this dim is long."""
    return MAX_ELEMENTS if _elements(op, {**_least(op), name: SHORTEST}) <= MAX_ELEMENTS else MOST_ELEMENTS


def _smaller(op: Op, most: int, sizes: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return the sizes, but none above `most`, as far as dims allow; a dim with choices keeps its size."""
    usual = sizes or op.dims_of(most)
    return {name: usual[name] if dim.choices else _within(dim, min(usual[name], most)) for name, dim in op.dims.items()}


def _least(op: Op) -> dict[str, int]:
    return {name: min(dim.choices) if dim.choices else max(dim.low, 1) for name, dim in op.dims.items()}


def _within(dim: Dim, size: int) -> int:
    return min(max(dim.low, size), dim.high)


def _fits(op: Op, dims: Mapping[str, int], name: str, limit: int) -> bool:
    """Return True if the dims are in range and no larger than `limit`; `name` is the long one."""
    return op.dims[name].low <= dims[name] <= _longest(op.dims[name]) and _elements(op, dims) <= limit


def _elements(op: Op, dims: Mapping[str, int]) -> int:
    return max(prod(dims.values()), op.largest_input(dims))


def _longest(dim: Dim) -> int:
    return dim.highest(Scale.LONG) if dim.long is None else dim.long
