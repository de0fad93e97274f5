"""How far a result may be from its float64 reference.

The definition is run from the same rounded inputs: in float64 for the truth; in the case's own type, eagerly, for what
error is usual; and in float64 with every intermediate moved by up to a unit in the last place of the case's type, for
what error rounding can explain at all (`monte_carlo`); products as far as the kernels' dots round their factors.
A right result may be `slack` times as far from the truth as the eager baseline, plus what rounding explains, plus a
floor: two units in the last place of its own type and 64 of float32's, relative to the tensor's size; integers and
truth values have none, and are exact but where random rounding moves them, as it moves the index of a maximum.
Errors are root-mean-square, over the whole tensor and over the worst tile, so that one wrong row shows.  Where the
eager run leaves the range of its type, the definition itself does, and the element is not judged.

Random rounding is sampled: from one sample of one element nothing follows about the next.  So its error counts
`2 + 180 / n` times, n being samples times elements: above the ratio of two such errors that chance exceeds once in ten
million tiles (the F distribution's quantile is 20 for eight samples of one element, 2.1 for one sample of 64).  A row
may be one random number times a vector, as in the gradient of attention; so no row is held to less than the whole
tensor's rounding.

All in NumPy: most results are small, and it takes a third of torch's time for each step.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from harness.model.run import Role

Array = npt.NDArray[Any]

TILE = 64
OWN_ULPS = 2.0
FLOAT32_ULPS = 64.0
EXACT = 1e-9
"""Of integers: no root-mean-square error of whole numbers is so small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Root-mean-square errors of one tensor."""

    per_tile: Array
    """One for each tile, or a single one for all."""
    whole: float


NO_ERROR = Errors(per_tile=np.zeros(1), whole=0.0)
"""Of a run that nobody made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How large the root-mean-square error of one result may be."""

    per_tile: Array
    whole: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """One result by the definition in float64, and its size: root-mean-square of what is finite."""

    values: Array
    finite: Array | None
    """Which elements are; None where all are."""
    largest: float
    """The largest magnitude of a finite element."""
    size: Errors

    @classmethod
    def of(cls, values: Array) -> Self:
        """With what there is to know of it."""
        largest = float(np.abs(values).max(initial=0.0))
        if math.isfinite(largest):
            return cls(values=values, finite=None, largest=largest, size=sizes(values))
        finite = np.isfinite(values)
        rest = np.where(finite, values, 0.0)
        return cls(values=values, finite=finite, largest=float(np.abs(rest).max(initial=0.0)), size=sizes(rest))


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What one result should be."""

    role: Role
    truth: Truth
    in_range: Array | None = None
    """Elements that the eager run in the case's own type does not take out of that type's range; None where all."""
    may_overflow: bool = False
    """Whether intermediates of the definition come near the end of the type's range: infinity and NaN are no error."""
    baseline: Errors
    """Of the eager run in the case's own type."""
    rounding: Errors
    """Of the runs with random rounding, over all of them together."""
    samples: int
    """How many runs those were."""
    judges_noise: bool = True
    """Whether rows are judged too of which random rounding leaves no digit."""


def tiles(values: Array) -> Array:
    """A tensor as rows to judge one by one: its own, or stretches of 64 of a vector, the last padded with zeros."""
    if not values.size:
        return values.reshape(0, 1)
    if values.ndim > 1:
        return values.reshape(-1, values.shape[-1])
    if values.size <= TILE:
        return values.reshape(1, -1)
    padded = np.zeros((-(-values.size // TILE), TILE), dtype=values.dtype)
    padded.reshape(-1)[: values.size] = values
    return padded


def sizes(values: Array) -> Errors:
    """Root-mean-square of each tile and of the whole."""
    if not values.size:
        return Errors(per_tile=np.zeros(0), whole=0.0)
    rows = tiles(values)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.einsum("ij,ij->i", rows, rows)
        return Errors(per_tile=np.sqrt(sums / rows.shape[1]), whole=math.sqrt(float(sums.sum()) / values.size))


def error_of(results: Sequence[Array], truth: Truth) -> Errors:
    """The error of several results together, or of none."""
    if not results:
        return NO_ERROR
    each = [sizes(_finite(result - truth.values)) for result in results]
    squares = np.stack([np.square(one.per_tile) for one in each]).mean(0)
    return Errors(per_tile=np.sqrt(squares), whole=math.sqrt(sum(one.whole**2 for one in each) / len(each)))


def largest_error_of(results: Sequence[Array], truth: Truth) -> Errors:
    """For each tile, and for the whole, the error of the result that is worst there."""
    each = [error_of([result], truth) for result in results]
    return Errors(per_tile=np.stack([one.per_tile for one in each]).max(0), whole=max(one.whole for one in each))


def chance(count: int) -> float:
    """How many times a sampled error counts that was measured on `count` numbers."""
    return 2 + 180 / max(1, count)


def tolerance_of(expected: Expected, dtype: torch.dtype, slack: float) -> Tolerance:
    """What is allowed to a result of this type; `slack` is the op's factor on the baseline's error."""
    values, size = expected.truth.values, expected.truth.size
    baseline, rounding, samples = expected.baseline, expected.rounding, expected.samples
    columns = tiles(values).shape[1] if samples else 0
    floor, smallest = _floor(dtype), _smallest(dtype)
    return Tolerance(
        whole=slack * baseline.whole + chance(samples * values.size) * rounding.whole + floor * size.whole + smallest,
        per_tile=slack * np.maximum(baseline.per_tile, baseline.whole)
        + chance(samples * columns) * np.maximum(rounding.per_tile, rounding.whole)
        + (floor * np.maximum(size.per_tile, size.whole) + smallest),
    )


@cache
def _floor(dtype: torch.dtype) -> float:
    """Integers and truth values are not rounded."""
    if not dtype.is_floating_point:
        return 0.0
    return OWN_ULPS * torch.finfo(dtype).eps + FLOAT32_ULPS * torch.finfo(torch.float32).eps


@cache
def _smallest(dtype: torch.dtype) -> float:
    """The spacing of subnormal numbers: below it, rounding is absolute.  Never 0, as errors are measured by it."""
    if not dtype.is_floating_point:
        return EXACT
    return float(torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps) + 1e-40


def _finite(values: Array) -> Array:
    return np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
