"""Whether two runs of a case computed the same, up to rounding; shared by the invariance oracles.

`harness.model.paired_run` decides which cases run a second time, because a run must know that it will be compared.
"""

from math import isnan

from harness.model.paired_run import Sketch, sketches_of
from harness.model.run import Result, Run


def disagreements(run: Run, other: Run) -> tuple[tuple[Result, int], ...]:
    """The results of `run` that the other run did not compute likewise, each with the first block that differs."""
    others = {sketch.name: sketch for sketch in sketches_of(other)}
    found = ((result, first_difference(result, others.get(result.name))) for result in run.results)
    return tuple((result, block) for result, block in found if block is not None)


def first_difference(one: Result, other: Sketch | None) -> int | None:
    """The first block whose projections lie further apart than both tolerances together; None if none does."""
    if other is None or one.shape != other.shape:
        return 0
    other_tolerances = other.tolerance or one.sketch_tolerance  # equal ones are made once
    blocks = zip(one.sketch, other.projections, one.sketch_tolerance, other_tolerances, strict=True)
    for index, (a, b, tolerance, other_tolerance) in enumerate(blocks):
        both_nan = isnan(a) and isnan(b)  # alike; that it is wrong is for `float64-values` to say
        if not (a == b or both_nan or abs(a - b) <= tolerance + other_tolerance):
            return index
    return None
