"""The comparison of exact values with the op's definition, and of rounded ones with what rounding usually costs.

An exact run answers two questions apart.  Is the algorithm right?  Then the exact values agree with the definition in
float64.  And how many digits does rounding cost?  That is the distance of the real values from the truth.

The bound of the first question follows from what an exact run still rounds.  Constants of a kernel are float32, and
some functions are approximated to float32.  So each step may be off by half a unit of float32, and the result by what
such steps do to it.  How far that is depends on the definition: where terms cancel it is more.  Therefore the
definition itself is computed with every intermediate moved by up to `STEP`, and by up to `SPACING`, and the bound is
that distance plus `ULPS` units of float32 of the tensor's size.

Where equal numbers cancel, definition and exact run each leave some rounding of float64, and no relative bound covers
the two.  If a result is off, a second exact run moves each value at random by `NOISE`, and the bound gets that too.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from harness.execution.tolerance import (
    NO_ERROR,
    Array,
    Errors,
    Expected,
    Truth,
    error_of,
    sampling_factor,
    sizes,
    tiles,
)
from harness.model.run import ExactComparison, Measure

STEP = 2.0**-24
"""Half a unit in the last place of float32."""
ULPS = 2.0
"""Units of float32, of the tensor's size, that a right algorithm may be off."""
SPACING = 2.0**-1074
"""The distance of float64's subnormal numbers.  A definition that takes their logarithm magnifies it."""
SAMPLES = 2
"""Runs of the definition with moved intermediates."""
NOISE = 2.0**-44
"""The largest relative change of a value in the second exact run: 512 units in the last place of float64."""
NOISE_FACTOR = 4.0
"""The factor of that distance, which is one random sample."""
SMALLEST = 1e-40
"""Added to bounds, which are divisors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactValues:
    """One result of an exact run."""

    real: torch.Tensor
    """As the library computed it."""
    exact: Array
    """Its exact values, in the definition's shape."""
    moved: Array | None = None
    """The same if each value is moved by `NOISE`; None if that was not tried."""


def compare_exact(
    name: str,
    values: ExactValues,
    expected: Expected,
    moved: Sequence[Array],
    eager: Mapping[str, Array],
) -> ExactComparison:
    """Return how far the exact values of one result are from its definition, and the real ones from the truth.

    Args:
        name: the result's name.
        values: the result.
        expected: the definition's values.
        moved: the definition with moved intermediates.
        eager: all results of the definition, computed by torch in the case's type.
    """
    truth = expected.truth
    real = values.real.detach().to(torch.float64).reshape(truth.values.shape).numpy()
    exact, noise = values.exact, NO_ERROR
    if values.moved is not None:
        with np.errstate(all="ignore"):
            noise = sizes(np.nan_to_num(values.moved - exact, nan=0.0, posinf=0.0, neginf=0.0))
    is_checked = np.ones(truth.values.shape, np.bool_) if truth.finite is None else truth.finite.copy()
    if expected.in_range is not None:
        is_checked &= expected.in_range
    is_unknown = np.isnan(exact) & ~np.isnan(real) & is_checked
    # Such a number overflows in the result's type.  If the result is finite, the kernel computes it another way.
    is_unknown |= (np.abs(exact) > largest_of(values.real.dtype)) & np.isfinite(real) & is_checked
    with np.errstate(all="ignore"):
        error = np.where(is_checked & ~is_unknown, exact - truth.values, 0.0)
        error = np.where(np.isfinite(error), error, math.inf)
    return ExactComparison(
        name=name,
        is_known=not is_unknown.any(),
        worst=_worst(error, exact, truth, (error_of(moved, truth), noise)),
        error=_relative_error(real, truth, is_checked),
        usual_error=_relative_error(eager[name], truth, is_checked),
        absolute_error=float(_errors(real, truth, is_checked).max(initial=0.0)),
        size=truth.size.whole,
    )


def largest_of(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).max if dtype.is_floating_point else math.inf


def _worst(error: Array, exact: Array, truth: Truth, explained: tuple[Errors, Errors]) -> Measure:
    """Return the largest error, of the whole tensor or of a tile, in units of its bound.

    `explained` are the distances that the definition moves, and that the rounding of float64 moves the exact values.
    """
    if not error.size:
        return Measure(ratio=0.0, index=(), got=0.0, expected=0.0)
    with np.errstate(all="ignore"):
        ours, size = sizes(error), truth.size
    definition, noise = explained
    floor, columns = ULPS * 2 * STEP, tiles(error).shape[1]
    whole = (
        sampling_factor(SAMPLES * error.size) * definition.whole
        + NOISE_FACTOR * noise.whole
        + floor * size.whole
        + SMALLEST
    )
    per_tile = (
        sampling_factor(SAMPLES * columns) * np.maximum(definition.per_tile, definition.whole)
        + NOISE_FACTOR * np.maximum(noise.per_tile, noise.whole)
        + floor * np.maximum(size.per_tile, size.whole)
        + SMALLEST
    )
    with np.errstate(all="ignore"):
        ratios = np.nan_to_num(ours.per_tile / per_tile, nan=math.inf, posinf=math.inf)
        ratio = max(float(ratios.max()), ours.whole / whole)
    rows = np.abs(tiles(error))
    if ratios.max() >= ratio:
        rows = np.where(np.arange(len(rows))[:, None] == ratios.argmax(), rows, -1.0)
    index = tuple(int(part) for part in np.unravel_index(int(rows.argmax()), error.shape))
    return Measure(ratio=ratio, index=index, got=float(exact[index]), expected=float(truth.values[index]))


def _relative_error(values: Array, truth: Truth, is_checked: Array) -> float:
    """Return the error of the worst tile relative to its size, or to the tensor's if that is larger."""
    if not values.size:
        return 0.0
    errors, size = _errors(values, truth, is_checked), np.maximum(truth.size.per_tile, truth.size.whole)
    with np.errstate(all="ignore"):
        ratios = np.where(errors > 0, errors / size, 0.0)
    return float(ratios.max())


def _errors(values: Array, truth: Truth, is_checked: Array) -> Array:
    """Return the root-mean-square error of each tile; infinity for one that is not finite."""
    with np.errstate(all="ignore"):
        error = np.where(is_checked, values.reshape(truth.values.shape) - truth.values, 0.0)
        return sizes(np.where(np.isfinite(error), error, math.inf)).per_tile
