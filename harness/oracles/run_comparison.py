"""The comparison of a run with a paired run, up to rounding; shared by the invariance oracles.

`harness.ops.paired_run_policy` decides which cases get a paired run, because a run must know that it will be compared.
"""

from math import isnan

from harness.model.paired_run import Sketch, sketches_of
from harness.model.run import Result, Run


def disagreements(run: Run, other: Run) -> tuple[tuple[Result, int], ...]:
    """Return the results of `run` that differ in the other run, each with the first block that differs."""
    others = {sketch.name: sketch for sketch in sketches_of(other)}
    found = ((result, first_difference(result, others.get(result.name))) for result in run.results)
    return tuple((result, block) for result, block in found if block is not None)


def first_difference(one: Result, other: Sketch | None) -> int | None:
    """Return the first block whose projections differ by more than both tolerances together; None if none does.

    A result that is missing or has another shape differs from block 0 on.
    """
    if other is None or one.shape != other.shape:
        return 0
    other_tolerances = other.tolerance or one.sketch_tolerance  # a paired run of equal tolerances does not compute them
    blocks = zip(one.sketch, other.projections, one.sketch_tolerance, other_tolerances, strict=True)
    for index, (a, b, tolerance, other_tolerance) in enumerate(blocks):
        both_nan = isnan(a) and isnan(b)  # equal; `float64-values` fails it
        if not (a == b or both_nan or abs(a - b) <= tolerance + other_tolerance):
            return index
    return None
