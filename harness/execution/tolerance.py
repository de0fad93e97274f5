"""The tolerance of a result: how far it may be from its float64 reference.

The definition runs three times from the same rounded inputs:

* in float64, for the truth;
* eagerly in the case's own type, for the usual error;
* in float64 with random rounding, for the error that rounding can explain (`monte_carlo`).

Random rounding moves every intermediate by up to a unit in the last place of the case's type.  It moves products as far
as the kernels' dots round their factors.

A right result may have `slack` times the error of the eager baseline, plus the error that rounding explains, plus a
floor.  The floor is two units in the last place of its own type and 64 of float32's, relative to the tensor's size.
A case of float64 has 64 units of float64 instead.  GPUs do not compute in eight bits: a kernel rounds to them once, at
the end.  So a result of eight bits has, in the place of two units, the error of its truth when that is rounded.  Two
units would hide everything: they are a quarter of the number.  For the same reason intermediates of such a case count
as bfloat16, the least type in which a kernel keeps them.  A kernel that rounds one to eight bits, as attention does to
its probabilities, needs a definition that rounds it, too.
Integers and truth values have no floor.  They are exact unless random rounding moves them, as it moves the index of a
maximum.  Where the definition rounds next to a border, both neighbours are right (`rounding_borders`).  Errors are
root-mean-square, over the whole tensor and over the worst tile, so that one wrong row shows.  An element is not checked
if the eager run leaves the range of its type there, because then the definition itself does.

Random rounding is sampled, and one sample of one element does not predict the next.  Therefore its error counts
`2 + 180 / n` times, where n is samples times elements.  By chance, two such errors exceed that ratio once in ten
million tiles.  The F distribution's quantile is 20 for eight samples of one element, and 2.1 for one sample of 64.

A row may be one random number times a vector, as in the gradient of attention.  Therefore the rounding of a row is at
least that of the whole tensor.

`array_functions` tells arrays of NumPy from tensors on a GPU, on which large results are judged.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from harness.execution.array_functions import count, functions_of, is_tensor, largest, sums_of_squares, wide, zeros
from harness.model.run import Role

Array = npt.NDArray[Any]
"""On a GPU, a tensor stands for it."""

TILE = 64
"""Elements of a tile of a vector."""
OWN_ULPS = 2.0
ONE_ROUNDING = 1.05
"""How many times the error of rounding the truth counts: some kernels round to float16 first."""
PARTIAL_ULPS = 64.0
EXACT = 1e-9
"""The tolerance of integers: below any root-mean-square error of whole numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Root-mean-square errors of one tensor."""

    per_tile: Array
    """One error for each tile, or a single one for all."""
    whole: float

    def times(self, factor: float) -> "Errors":
        return Errors(per_tile=factor * self.per_tile, whole=factor * self.whole)


NO_ERROR = Errors(per_tile=np.zeros(1), whole=0.0)
"""The error of a run that was not made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """The largest root-mean-square errors of a right result."""

    per_tile: Array
    whole: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """One result of the definition in float64, and its size: the root-mean-square of its finite elements."""

    values: Array
    finite: Array | None
    """The mask of finite elements; None if all are finite."""
    largest: float
    """The largest magnitude of a finite element."""
    size: Errors

    @classmethod
    def of(cls, values: Array) -> Self:
        most = largest(values)
        if math.isfinite(most):
            return cls(values=values, finite=None, largest=most, size=sizes(values))
        functions = functions_of(values)
        finite = functions.isfinite(values)
        rest = functions.where(finite, values, 0.0)
        return cls(values=values, finite=finite, largest=largest(rest), size=sizes(rest))


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """For each element of an integer result the least and the largest number that a right kernel may give."""

    low: Array
    high: Array
    wraps: Array
    """The mask of elements that wrap around in their type: only the two ends are right, and nothing between."""

    def beyond(self, values: Array) -> Array:
        """Return how far values lie outside."""
        nearest = np.where(values - self.low < self.high - values, self.low, self.high)
        return values - np.where(self.wraps, nearest, np.clip(values, self.low, self.high))

    def settled(self, values: Array, truth: Array) -> Array:
        """Return the values, but the truth in the place of those inside."""
        return truth + self.beyond(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The expected values of one result, and the errors from which its tolerance follows."""

    role: Role
    truth: Truth
    in_range: Array | None = None
    """The mask of elements to check: their definition stays in the range of the case's type.  None for all."""
    may_overflow: bool = False
    """True if intermediates of the definition come near the end of the type's range, so infinity and NaN are right."""
    baseline: Errors
    """The error of the eager run in the case's own type."""
    rounding: Errors
    """The error of the runs with random rounding, all together."""
    samples: int
    """The number of runs with random rounding."""
    neighbours: Neighbours | None = None
    """For integers that the definition rounds; the errors above are those beyond it."""
    checks_noise: bool = True
    """True if rows are checked although random rounding leaves no digit of them."""
    partial: float = float(torch.finfo(torch.float32).eps)
    """The unit in the last place of the type in which kernels of this case add up."""


def tiles(values: Array) -> Array:
    """Return the tiles of a tensor as rows: its own rows, or parts of 64 elements of a vector, padded with zeros."""
    size = count(values)
    if not size:
        return values.reshape(0, 1)
    if values.ndim > 1:
        return values.reshape(-1, values.shape[-1])
    if size <= TILE:
        return values.reshape(1, -1)
    padded = zeros(values, (-(-size // TILE), TILE))
    padded.reshape(-1)[:size] = values
    return padded


def sizes(values: Array) -> Errors:
    """Return the root-mean-square of each tile and of the whole."""
    size = count(values)
    if not size:
        return Errors(per_tile=zeros(values, 0), whole=0.0)
    rows = tiles(values)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = sums_of_squares(rows)
        per_tile = functions_of(sums).sqrt(sums / rows.shape[1])
        return Errors(per_tile=per_tile, whole=math.sqrt(float(sums.sum()) / size))


def error_of(results: Sequence[Array], truth: Truth) -> Errors:
    """Return the root-mean-square error of several results together; no error for no results."""
    if not results:
        return NO_ERROR
    with np.errstate(invalid="ignore"):  # both may be infinite where a case is NaN-tainted
        each = [_sizes_of_finite(result - truth.values) for result in results]
    if len(each) == 1:
        return each[0]
    functions = functions_of(each[0].per_tile)
    squares = functions.stack([functions.square(errors.per_tile) for errors in each]).mean(0)
    return Errors(
        per_tile=functions.sqrt(squares), whole=math.sqrt(sum(errors.whole**2 for errors in each) / len(each))
    )


def largest_error_of(results: Sequence[Array], truth: Truth) -> Errors:
    """Return for each tile, and for the whole, the error of the result that is worst there."""
    each = [error_of([result], truth) for result in results]
    functions = functions_of(each[0].per_tile)
    per_tile = reduce(functions.maximum, (errors.per_tile for errors in each))
    return Errors(per_tile=per_tile, whole=max(errors.whole for errors in each))


def sampling_factor(count: int) -> float:
    """Return the factor of an error that was sampled on `count` numbers."""
    return 2 + 180 / max(1, count)


def tolerance_of(expected: Expected, dtype: torch.dtype, slack: float) -> Tolerance:
    """Return the tolerance of a result of this type; `slack` is the op's factor on the baseline's error."""
    values, size = expected.truth.values, expected.truth.size
    baseline, rounding, samples = expected.baseline, expected.rounding, expected.samples
    own = _error_of_rounding(expected.truth, dtype)
    columns = tiles(values).shape[1] if samples else 0
    floor, smallest = _floor(dtype, expected.partial), _smallest(dtype)
    return Tolerance(
        whole=slack * baseline.whole
        + sampling_factor(samples * count(values)) * rounding.whole
        + floor * size.whole
        + ONE_ROUNDING * own.whole
        + smallest,
        per_tile=slack * _not_below_whole(baseline)
        + sampling_factor(samples * columns) * _not_below_whole(rounding)
        + (floor * _not_below_whole(size) + (0.0 if own is NO_ERROR else ONE_ROUNDING * own.per_tile) + smallest),
    )


def _not_below_whole(errors: Errors) -> Any:
    """Return the error of each tile, at least that of the whole tensor."""
    return 0.0 if errors is NO_ERROR else errors.per_tile.clip(errors.whole)


@cache
def _floor(dtype: torch.dtype, partial: float) -> float:
    if not dtype.is_floating_point:  # integers and truth values are not rounded
        return 0.0
    own = OWN_ULPS * torch.finfo(dtype).eps if dtype.itemsize > 1 else 0.0
    return own + PARTIAL_ULPS * partial


def _error_of_rounding(truth: Truth, dtype: torch.dtype) -> Errors:
    """Return the error of the truth in eight bits; none in other types, whose floor covers it."""
    if dtype.itemsize > 1 or not dtype.is_floating_point or not count(truth.values):
        return NO_ERROR
    limits = torch.finfo(dtype)
    nearest = torch.as_tensor(truth.values).clamp(limits.min, limits.max).to(dtype)
    return error_of([wide(nearest, as_tensor=is_tensor(truth.values))], truth)


@cache
def _smallest(dtype: torch.dtype) -> float:
    """Return the spacing of subnormal numbers, below which rounding is absolute; never 0, since it is a divisor."""
    if not dtype.is_floating_point:
        return EXACT
    # Eight bits round their subnormal numbers as any other, so the error of rounding covers these.
    return float(torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps) * (dtype.itemsize > 1) + 1e-40


def _sizes_of_finite(values: Array) -> Errors:
    """Return the sizes of the finite elements; most often all are."""
    errors = sizes(values)
    if math.isfinite(errors.whole):
        return errors
    return sizes(functions_of(values).nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0))
