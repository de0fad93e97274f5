"""Cases in which one dim is longer than in the samples, and the others are short.

A kernel may be written for the sizes of a sample: one tile then holds a whole row of it.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from harness.model.case import Case, Scale
from harness.model.op import Op
from harness.search.long_cases import SHORTEST

MOST_CASES = 4
MOST_ELEMENTS = 2**19
"""The limit of every input."""
LONGEST = SHORTEST - 1
"""A search has long cases of its own from the next length on."""
SHORT = (2, 1)
"""Sizes of the other dims, where they are legal.  A size of 1 may hide wrong strides, so it comes last."""


def longest_of(sizes: tuple[int, ...]) -> int:
    """Return a length past two of the longest rows in the samples, of which no tile is a divisor."""
    return min(2 * max(sizes) + 3, LONGEST)


def longer_than_sampled(op: Op, usual: Case) -> Iterator[Case]:
    """Yield a case for each dim that may be long, if its inputs are small enough; otherwise the case is as `usual`."""
    long_dims = [name for name, dim in op.dims.items() if dim.long is not None][:MOST_CASES]
    for name in long_dims:
        longest = op.dims[name].highest(Scale.LONG)
        for length, short in product((longest, (longest + 3) // 2), SHORT):
            dims = {**op.dims_of(short), name: length}
            case = replace(usual, dims=dims, layouts={}, scale=Scale.LONG)
            if op.largest_input(dims) <= MOST_ELEMENTS and op.allows(case):
                yield case
                break
