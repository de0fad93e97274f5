"""Results against their float64 reference, as facts.

The definition is run from the same rounded inputs: in float64 for the truth; in the case's own type, eagerly, for what
error is usual; and in float64 with every intermediate moved by up to a unit in the last place of the case's type, for
what error rounding can explain at all (`harness.ops.jitter`); products as far as the kernels' dots round their factors.
A right result may be `slack` times as far from the truth as the eager baseline, plus what rounding explains, plus a
floor: two units in the last place of its own type and 64 of float32's, relative to the tensor's size.  Errors are
root-mean-square, over the whole tensor and over the worst tile, so that one wrong row shows.  Where the eager run
leaves the range of its type, the definition itself does, and the element is not judged.

Random rounding is sampled: from one sample of one element nothing follows about the next.  So its error counts
`2 + 180 / n` times, n being samples times elements: above the ratio of two such errors that chance exceeds once in ten
million tiles (the F distribution's quantile is 20 for eight samples of one element, 2.1 for one sample of 64).  A row
may be one random number times a vector, as in the gradient of attention; so no row is held to less than the whole
tensor's rounding.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from harness.model.run import Measure, Result, Role
from harness.ops.poison import count_poison

TILE = 64
SKETCHES = 8
OWN_ULPS = 2.0
FLOAT32_ULPS = 64.0
SAMPLES = ((256, 8), (4096, 4))
"""Results of up to so many elements get so many runs with random rounding; larger ones one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Root-mean-square errors of one tensor."""

    per_tile: torch.Tensor
    whole: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What one result should be."""

    role: Role
    truth: torch.Tensor
    """float64."""
    in_range: torch.Tensor
    """Elements that the eager run in the case's own type does not take out of that type's range."""
    may_overflow: bool = False
    """Whether intermediates of the definition come near the end of the type's range: infinity and NaN are no error."""
    baseline: Errors
    """Of the eager run in the case's own type."""
    rounding: Errors
    """Of the runs with random rounding, over all of them together."""
    samples: int
    """How many runs those were."""


def samples(elements: int) -> int:
    """How many runs with random rounding a result of so many elements needs."""
    return next((count for limit, count in SAMPLES if elements <= limit), 1)


def error_of(results: list[torch.Tensor], truth: torch.Tensor) -> Errors:
    """The error of several results together."""
    errors = [_finite(result.to(torch.float64) - truth) for result in results]
    squares = torch.stack([rms(error).square() for error in errors]).mean(0)
    return Errors(per_tile=squares.sqrt(), whole=math.sqrt(sum(_whole(error) ** 2 for error in errors) / len(errors)))


def chance(count: int) -> float:
    """How many times a sampled error counts that was measured on `count` numbers."""
    return 2 + 180 / max(1, count)


def tiles(values: torch.Tensor) -> torch.Tensor:
    """A tensor as rows to judge one by one: its own, or stretches of 64 of a vector, the last padded with zeros."""
    if not values.numel():
        return values.new_zeros(0, 1)
    if values.dim() > 1:
        return values.reshape(-1, values.shape[-1])
    flat = values.reshape(-1)
    short = -flat.numel() % TILE if flat.numel() > TILE else 0
    return torch.nn.functional.pad(flat, (0, short)).reshape(-1, TILE if flat.numel() > TILE else max(1, flat.numel()))


def rms(values: torch.Tensor) -> torch.Tensor:
    """Root-mean-square of each tile."""
    return tiles(values).square().mean(-1).sqrt()


def compare(name: str, got: torch.Tensor, expected: Expected, *, slack: float, seed: int) -> Result:
    """One output or gradient as facts; `slack` is the op's factor on the baseline's error."""
    truth = expected.truth
    unwritten, first_unwritten = count_poison(got)
    wide = got.detach().to(torch.float64).reshape(truth.shape)
    floor = OWN_ULPS * torch.finfo(got.dtype).eps + FLOAT32_ULPS * torch.finfo(torch.float32).eps
    size = _finite(truth)
    whole_size = _whole(size)
    columns = tiles(truth).shape[-1]
    whole_tolerance = (
        slack * expected.baseline.whole
        + chance(expected.samples * truth.numel()) * expected.rounding.whole
        + floor * whole_size
        + _smallest(got.dtype)
    )
    tile_tolerance = (
        slack * torch.clamp(expected.baseline.per_tile, min=expected.baseline.whole)
        + chance(expected.samples * columns) * torch.clamp(expected.rounding.per_tile, min=expected.rounding.whole)
        + floor * torch.clamp(rms(size), min=whole_size)
        + _smallest(got.dtype)
    )
    largest = torch.finfo(got.dtype).max - whole_tolerance  # beyond it, rounding alone may lead to infinity
    judged = torch.isfinite(truth) & (truth.abs() <= largest) & expected.in_range
    if expected.may_overflow:
        judged &= torch.isfinite(wide)
    broken = ~torch.isfinite(wide) & judged
    error = torch.where(judged, wide - truth, 0.0)
    ratios = torch.nan_to_num(rms(error) / tile_tolerance, nan=math.inf)
    worst = int(ratios.argmax()) if ratios.numel() else 0
    sketch, sketch_tolerance = _sketch(wide, whole_tolerance, seed)
    return Result(
        name=name,
        role=expected.role,
        shape=tuple(truth.shape),
        whole=_measure(_whole(error) / whole_tolerance, _worst_element(error, None), wide, truth),
        worst_tile=_measure(float(ratios[worst]) if ratios.numel() else 0.0, _worst_element(error, worst), wide, truth),
        unwritten=unwritten,
        first_unwritten=first_unwritten,
        nonfinite=int(broken.sum()),
        unjudged=truth.numel() - int(judged.sum()),
        digest=_digest(got),
        sketch=sketch,
        sketch_tolerance=sketch_tolerance,
    )


def _digest(values: torch.Tensor) -> str:
    raw = values.detach().clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8)
    return hashlib.sha256(raw.numpy().tobytes()).hexdigest()[:16]


def digests(results: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Of each result's bytes, by its name: equal for results that are equal bit for bit."""
    return {name: _digest(values) for name, values in results.items()}


def _finite(values: torch.Tensor) -> torch.Tensor:
    return torch.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


def _whole(values: torch.Tensor) -> float:
    if not values.numel():
        return 0.0
    found = float(values.square().mean().sqrt())
    return math.inf if math.isnan(found) else found


def _smallest(dtype: torch.dtype) -> float:
    """The spacing of subnormal numbers: below it, rounding is absolute."""
    return float(torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps) + 1e-40


def _worst_element(error: torch.Tensor, tile: int | None) -> tuple[int, ...]:
    """Index of the largest error, a NaN counting as the largest; within one tile, or anywhere."""
    if not error.numel():
        return ()
    size = torch.nan_to_num(error.abs(), nan=math.inf)
    first = 0
    if tile is not None:
        rows = tiles(size)
        first = tile * rows.shape[-1]
        size = rows[tile]
    flat = min(first + int(size.reshape(-1).argmax()), error.numel() - 1)
    return tuple(int(part) for part in torch.unravel_index(torch.tensor(flat), error.shape))


def _measure(ratio: float, index: tuple[int, ...], got: torch.Tensor, truth: torch.Tensor) -> Measure:
    if not truth.numel():
        return Measure(ratio=0.0, index=(), got=0.0, expected=0.0)
    return Measure(ratio=float(ratio), index=index, got=float(got[index]), expected=float(truth[index]))


def _sketch(values: torch.Tensor, tolerance: float, seed: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Projections of a few blocks of the flat tensor on random signs, and how far two right runs' may differ."""
    flat = values.reshape(-1)
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, flat.shape, generator=generator).to(torch.float64) * 2 - 1
    blocks = torch.tensor_split(flat * signs, min(SKETCHES, max(1, flat.numel())))
    sums = tuple(float(block.sum()) for block in blocks)
    return sums, tuple(4 * tolerance * math.sqrt(max(1, block.numel())) for block in blocks)
