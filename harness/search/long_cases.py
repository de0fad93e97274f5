"""Long cases: one dim is long, past the limits of 16 bits and of a grid's axes, and the others are small.

Host code may count rows in 16 bits, or put them on an axis of a grid that has 65,535 programs.  Each long case is made
from a case of usual size.  Owns the choice of the dim, of its length and of the other sizes.
"""

from collections.abc import Iterator, Mapping
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
"""The limit for the product of all dims, and for every input: it bounds memory and time."""
NEAR_16_BITS = (32_767, 32_768, 32_769, 65_535, 65_536, 65_537)
"""The ends of 16-bit integers, and the largest y and z of a grid, each ± 1."""
FURTHER = (2**20 - 1, 2**20, 2**20 + 1, 65_535 * 32 + 1, 65_535 * 64 + 1)
"""2^20 ± 1: more than 65,535 tiles of 16.  Then one tile of 32, and of 64, more than a grid's y may have."""
LENGTHS = (*NEAR_16_BITS * 3, *FURTHER)
"""Lengths to draw from.  Those near 16 bits come three times, since they find most and cost least."""
SIZES = st.sampled_from((1, 2, 3, 4, 8, 16, 17, 32, 64))
"""Sizes of the other dims."""
LIMITS = (64, 8, 4, 2, 1)
"""Limits for them: the first for which a long case is small enough."""
EARLY_LENGTHS = (65_537, 32_769)
EARLY_LIMITS = (8, 4, 2, 1)
"""The length and the other sizes of an early case: the first that are legal."""


def long_dims(op: Op) -> tuple[str, ...]:
    """Return the dims that may be long."""
    return tuple(name for name, dim in op.dims.items() if not dim.choices and _longest(dim) >= SHORTEST)


@st.composite
def long_cases(draw: st.DrawFn, op: Op, usual: Case) -> Case:
    """Draw the case with one long dim, or the case itself if that is not legal."""
    name = draw(st.sampled_from(long_dims(op)))
    lengths = [length for length in LENGTHS if _fits(op, {**_smaller(op, 1), name: length}, name)]
    if not lengths:
        return usual
    length = draw(st.sampled_from(lengths))
    sizes = {other: usual.dims[other] if dim.choices else draw(SIZES) for other, dim in op.dims.items()}
    candidates = (_smaller(op, most, sizes) | {name: length} for most in LIMITS)
    dims = next((dims for dims in candidates if _fits(op, dims, name)), {**_smaller(op, 1), name: length})
    long = replace(usual, dims=dims, scale=Scale.LONG)
    return long if op.allows(long) else usual


def early_long_cases(op: Op, simple: Case) -> Iterator[Case]:
    """Yield one long case for each dim that may be long."""
    for name in long_dims(op):
        sizes = [{**_smaller(op, most), name: length} for most in EARLY_LIMITS for length in EARLY_LENGTHS]
        long_cases = (replace(simple, dims=dims, scale=Scale.LONG) for dims in sizes if _fits(op, dims, name))
        if (long := next(filter(op.allows, long_cases), None)) is not None:
            yield long


def _smaller(op: Op, most: int, sizes: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return the sizes, but none above `most`, as far as dims allow; a dim with choices keeps its size."""
    usual = sizes or op.dims_of(most)
    return {name: usual[name] if dim.choices else _within(dim, min(usual[name], most)) for name, dim in op.dims.items()}


def _within(dim: Dim, size: int) -> int:
    return min(max(dim.low, size), dim.high)


def _fits(op: Op, dims: Mapping[str, int], name: str) -> bool:
    """Return True if the dims are no larger than a long case may be; `name` is the long one."""
    if not op.dims[name].low <= dims[name] <= _longest(op.dims[name]):
        return False
    return max(prod(dims.values()), op.largest_input(dims)) <= MAX_ELEMENTS


def _longest(dim: Dim) -> int:
    return dim.highest(Scale.LONG) if dim.long is None else dim.long
