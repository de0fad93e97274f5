"""Cases that chance may leave out of a short search: values that were not drawn, and dims longer than the samples'.

A kernel may be written for the sizes of a sample: one tile then holds a whole row of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from harness.model.case import Case, Scale, ValueDistribution
from harness.model.op import Op
from harness.model.run import Run
from harness.search.long_cases import SHORTEST
from harness.search.sort_key import values_of

MOST_CASES = 4
MOST_ELEMENTS = 2**19
"""The limit of every input."""
MOST_SAMPLE_ELEMENTS = 2**22
"""The same for a case of the sample's own size."""
LONGEST = SHORTEST - 1
"""A search has long cases of its own from the next length on."""
SHORT = (2, 1)
"""Sizes of the other dims, where they are legal.  A size of 1 may hide wrong strides, so it comes last."""


def longest_of(sizes: tuple[int, ...]) -> int:
    """Return a length past two of the longest rows in the samples, of which no tile is a divisor."""
    return min(2 * max(sizes) + 3, LONGEST)


def has_usual_values(case: Case) -> bool:
    """Return True for a case of usual size with normal values, maybe shifted."""
    return case.scale is Scale.USUAL and case.values in {ValueDistribution.NORMAL, ValueDistribution.SHIFTED}


def rare_cases(op: Op, completed: Sequence[Run]) -> Iterator[Case]:
    """Yield the cases that are missing after these; none if no case had usual values."""
    drawn = {run.case.values for run in completed}
    plain = [run.case for run in completed if has_usual_values(run.case)]
    if not plain:
        return
    small = [case for case in plain if op.largest_input(case.dims) <= MOST_ELEMENTS]
    usual = max(small or plain, key=_masked_lanes)
    for values in (*values_of(op), ValueDistribution.NEGATIVE):
        # A drawn case may have too few rows for one that is all zeros.
        if values not in drawn or values is ValueDistribution.ZEROS:
            yield replace(usual, values=values)
    yield from _longer_cases(op, usual)


def sample_case(op: Op, sizes: Mapping[str, int], completed: Sequence[Run]) -> Case | None:
    """Return a case of the sample's own sizes; None if it is too large, or if no case had usual values."""
    plain = [run.case for run in completed if has_usual_values(run.case)]
    if not plain or op.largest_input(sizes) > MOST_SAMPLE_ELEMENTS:
        return None
    dims = {name: sizes.get(name, plain[0].dims[name]) for name in op.dims}
    usual = replace(plain[0], dims=dims, layouts={}, values=ValueDistribution.NORMAL)
    return next(filter(op.allows, (usual, replace(usual, scale=Scale.LONG))), None)


def _longer_cases(op: Op, usual: Case) -> Iterator[Case]:
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


def _masked_lanes(case: Case) -> tuple[int, int]:
    """Return the larger, the more sizes leave a part of their tile masked, and then the more elements there are."""
    sizes = case.dims.values()
    return sum(size.bit_count() > 1 for size in sizes), prod(sizes)
