"""Realistic sizes: dims as models have them, which a hardware GPU runs in milliseconds and the virtual GPU in minutes.

A drawn case decides by itself, by its digest: no draw of Hypothesis depends on it.  Failures shrink to usual sizes.
"""

import random
from collections.abc import Mapping
from dataclasses import replace

from harness.model.case import FAR_FROM_ONE, Case, Scale, ValueDistribution
from harness.model.op import Op

ONE_IN = 32
"""One case in so many has realistic sizes, if dims of its op declare any."""
MOST_ELEMENTS = 2**26
"""The largest input of such a case has at most so many elements; its definition takes ten times the memory."""
STRADDLES = (-1, 0, 0, 0, 1)
"""What is added to a multiple of a power of two."""


def in_realistic_size(op: Op, case: Case) -> Case:
    """Return the case, perhaps with realistic sizes; equal cases get equal ones."""
    names = tuple(name for name, dim in op.dims.items() if dim.realistic is not None)
    number = int(op.seed_digest(case), 16) // ONE_IN
    if case.scale is not Scale.USUAL or not names or number % ONE_IN:
        return case
    choice = random.Random(number)  # noqa: S311 - reproducible, not secret
    drawn = {name: _size(choice, op.dims[name].high, op.dims[name].realistic or 0) for name in names}
    dims = _fitted(op, {**case.dims, **drawn}, names)
    # As in other long cases, digits of values far from one depend on how a kernel rounds.
    values = ValueDistribution.NORMAL if case.values in FAR_FROM_ONE else case.values
    made = replace(case, dims=dims, values=values, scale=Scale.LONG)
    return made if op.allows(made) else case


def _size(choice: random.Random, usual: int, realistic: int) -> int:
    """Return a size beyond half the usual limit, near a multiple of a power of two, each magnitude as often."""
    exponent = choice.randrange(max(1, usual // 2).bit_length(), realistic.bit_length())
    size = (1 << exponent) + (choice.randrange(8) << exponent >> 3)
    return min(realistic, size + choice.choice(STRADDLES))


def _fitted(op: Op, dims: Mapping[str, int], names: tuple[str, ...]) -> dict[str, int]:
    """Return the sizes, with the largest of those named halved until the inputs are small enough."""
    fitted = dict(dims)
    while op.largest_input(fitted) > MOST_ELEMENTS:
        name = max(names, key=fitted.__getitem__)
        if fitted[name] <= op.dims[name].high:
            break
        fitted[name] //= 2
    return fitted
