"""Cases that chance may leave out of a short search: values that were not drawn, and dims longer than the samples'.

A kernel may be written for the sizes of a sample: one tile then holds a whole row of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from math import prod

from harness.execution.paired_run_policy import unsampled
from harness.execution.reruns import Rerun, call_check, fails_between, later_seeds
from harness.model.case import ONLY_IN_CHECKS, Case, Layout, Scale, ValueDistribution
from harness.model.op import Op
from harness.model.run import Run
from harness.search.long_cases import SHORTEST
from harness.search.sort_key import usual_layouts_of, values_of

WITH_GAPS = (Layout.STRIDED, Layout.BATCH_STRIDED)
MOST_CASES = 4
MOST_ELEMENTS = 2**19
"""The limit of every input."""
MOST_SAMPLE_ELEMENTS = 2**22
"""The same for a case of the sample's own size."""
AGAIN = {"again": True}
"""The option of a call after one with other values: a candidate may keep its result for a large sample alone."""
SHRINKING, LEAST_SHARE = 0.9, 1e-6
"""The steps in which a large sample is scaled down."""
MOST_SCALED_ELEMENTS = 2**20
"""The same for a case like a sample that is too large."""
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
    usual = unsampled(max(small or plain, key=_masked_lanes))
    for values in (*values_of(op), *sorted(ONLY_IN_CHECKS - {ValueDistribution.SAMPLE})):
        # A drawn case may have too few rows for one that is all zeros.
        if values not in drawn or values is ValueDistribution.ZEROS:
            yield replace(usual, values=values)
    if gaps := dict(_gaps(op, completed)):
        yield replace(usual, layouts=gaps)
    yield from _later_calls(op, usual, completed)
    yield from _longer_cases(op, usual)


def _later_calls(op: Op, usual: Case, completed: Sequence[Run]) -> Iterator[Case]:
    """Yield the cases with later calls of which no case completed: few drawn cases have any."""
    called = {fails_between(run.case) for run in completed if run.later is not None}
    for seed in later_seeds(usual.seed):
        case = replace(usual, seed=seed)
        if fails_between(case) not in called and call_check(op, case) is Rerun.LATER:
            yield case


def _gaps(op: Op, completed: Sequence[Run]) -> Iterator[tuple[str, Layout]]:
    """Yield the inputs whose rows had no gap between them in any case, with a layout that has gaps."""
    for name in op.inputs:
        possible = [layout for layout in WITH_GAPS if layout in usual_layouts_of(op, name)]
        if possible and not any(run.case.layouts.get(name) in WITH_GAPS for run in completed):
            yield name, possible[0]


def sample_cases(op: Op, sizes: Mapping[str, int], completed: Sequence[Run]) -> Iterator[Case]:
    """Yield a case of the sample's own values, if they are known, and one of its own sizes.

    If these are too large, there are one like it and one for each dim that is long.  A candidate may compute nothing
    from a size on that no smaller case reaches.
    """
    plain = [run.case for run in completed if has_usual_values(run.case)]
    if not plain:
        return
    own = {name: sizes.get(name, plain[0].dims[name]) for name in op.dims}
    # The dims of the op end where a search has long cases of its own.
    wide = replace(op, dims={name: replace(dim, long=max(own[name], dim.high)) for name, dim in op.dims.items()})
    usual = replace(unsampled(plain[0]), layouts={}, values=ValueDistribution.NORMAL, options=AGAIN)
    if op.sample is not None:
        sampled = replace(usual, dims=own, values=ValueDistribution.SAMPLE, options={})
        yield from islice(filter(wide.allows, (sampled, replace(sampled, scale=Scale.LONG))), 1)
    for dims in _like_sample(op, own):
        case = replace(usual, dims=dims)
        yield from islice(filter(wide.allows, (case, replace(case, scale=Scale.LONG))), 1)


def _like_sample(op: Op, own: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    if op.largest_input(own) <= MOST_SAMPLE_ELEMENTS:
        yield own
        return
    for name in (name for name, size in own.items() if size > LONGEST):
        shortest = {**op.dims_of(1), name: own[name]}
        if op.largest_input(shortest) <= MOST_SAMPLE_ELEMENTS:
            yield shortest
    scaled, share = dict(own), 1.0
    while op.largest_input(scaled) > MOST_SCALED_ELEMENTS and share > LEAST_SHARE:
        share *= SHRINKING
        scaled = {name: max(1, round(size * share)) if size > 1 else size for name, size in own.items()}
    yield scaled


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
