"""The comparison of a run with a paired run, up to rounding; shared by the invariance oracles.

Runs keep sketches of results, no tensors: the elements of a tensor, in order, are cut into a few parts, and each part
is summed with random signs.  So a difference is known by its part, and by the size of the sum.

`harness.execution.paired_run_policy` decides which cases get a paired run, because a run must know that it will be
compared.
"""

from dataclasses import dataclass
from math import inf, isfinite, isnan, prod

from harness.model.paired_run import Sketch, sketches_of
from harness.model.run import Result, Run
from harness.model.verdict import Extent
from harness.oracles.float64_values import FAR
from harness.oracles.memory_events import cell


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingPart:
    """A part of a result whose sums differ between two runs by more than both tolerances together."""

    index: int
    difference: float
    allowed: float

    @property
    def tolerances(self) -> float:
        """The difference in units of what rounding allows; infinity if a sum is not finite."""
        return self.difference / self.allowed if isfinite(self.difference) and self.allowed else inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """A result that differs between two runs."""

    result: Result
    other_shape: tuple[int, ...] | None
    """The shape in the other run; None if it has no such result."""
    parts: tuple[DifferingPart, ...] = ()
    """The parts that differ; empty if the shapes differ."""

    @property
    def extent(self) -> Extent | None:
        """How far the result is off; None if the shapes differ."""
        if not self.parts:
            return None
        if not all(isfinite(part.difference) for part in self.parts):
            return Extent.NOT_FINITE
        return Extent.LARGE if max(part.tolerances for part in self.parts) >= FAR else Extent.SLIGHT

    @property
    def where(self) -> str:
        """The part that differs most, and by how much, as a clause that follows a colon."""
        if self.other_shape is None:
            return "the other run has no such result"
        if self.other_shape != self.result.shape:
            return f"its shape is {self.result.shape} in one run and {self.other_shape} in the other"
        worst = max(self.parts, key=lambda part: part.tolerances)
        total, count = prod(self.result.shape), len(self.result.sketch)
        first, last = _ends(total, count, worst.index)
        cells = " to ".join(
            dict.fromkeys(cell(self.result.name, _position(self.result.shape, element)) for element in (first, last))
        )
        often = f"; {len(self.parts)} of its {count} parts {'differs' if len(self.parts) == 1 else 'differ'}"
        return f"most in {cells} ({_elements(first, last)} of {total}), {_amount(worst)}{often if count > 1 else ''}"


def disagreements(run: Run, other: Run) -> tuple[Disagreement, ...]:
    """Return the results of `run` that differ in the other run."""
    other_sketches = {sketch.name: sketch for sketch in sketches_of(other)}
    compared = (_disagreement(result, other_sketches.get(result.name)) for result in run.results)
    return tuple(disagreement for disagreement in compared if disagreement is not None)


def _disagreement(result: Result, other: Sketch | None) -> Disagreement | None:
    if other is None or result.shape != other.shape:
        return Disagreement(result=result, other_shape=None if other is None else other.shape)
    # A paired run of equal tolerances does not compute them.
    other_tolerances = other.tolerance or result.sketch_tolerance
    sums = zip(result.sketch, other.projections, result.sketch_tolerance, other_tolerances, strict=True)
    parts = tuple(
        DifferingPart(index=index, difference=abs(a - b), allowed=tolerance + other_tolerance)
        for index, (a, b, tolerance, other_tolerance) in enumerate(sums)
        if not _agree(a, b, tolerance + other_tolerance)
    )
    return Disagreement(result=result, other_shape=other.shape, parts=parts) if parts else None


def _agree(a: float, b: float, allowed: float) -> bool:
    both_nan = isnan(a) and isnan(b)  # equal; `float64-values` fails it
    return a == b or both_nan or abs(a - b) <= allowed


def _amount(part: DifferingPart) -> str:
    if not isfinite(part.difference):
        return "where one run has NaN or infinity"
    return (
        f"whose sums with random signs differ by {part.difference:.3g}: {part.tolerances:.3g} times "
        f"the {part.allowed:.2g} that rounding allows"
    )


def _elements(first: int, last: int) -> str:
    return f"element {first}" if first == last else f"elements {first} to {last}"


def _ends(total: int, parts: int, index: int) -> tuple[int, int]:
    """Return the first and the last element of a part, of which the earlier ones take what does not divide."""
    size, larger = divmod(total, parts)
    first = index * size + min(index, larger)
    return first, first + size + (index < larger) - 1


def _position(shape: tuple[int, ...], element: int) -> tuple[int, ...]:
    index: list[int] = []
    for extent in reversed(shape):
        element, at = divmod(element, extent)
        index.append(at)
    return tuple(reversed(index))
