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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from harness.model.companion import Sketch
from harness.model.picture import Spread
from harness.model.run import Measure, Result, Role
from harness.ops import spread
from harness.ops.poison import count_poison, still_fresh

Array = npt.NDArray[Any]

TILE = 64
SKETCHES = 8
OWN_ULPS = 2.0
FLOAT32_ULPS = 64.0
DOUBTFUL = 100.0
"""So many times the tolerance is no matter of rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Root-mean-square errors of one tensor."""

    per_tile: torch.Tensor
    whole: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How large the root-mean-square error of one result may be."""

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
    judges_noise: bool = True
    """Whether rows are judged too of which random rounding leaves no digit."""


def is_right(result: Result) -> bool:
    """Whether a result is within its tolerance, as a whole and in every tile."""
    return result.whole.ratio <= 1 and result.worst_tile.ratio <= 1 and not result.nonfinite


def is_doubtful(result: Result) -> bool:
    """Whether a result is beyond its tolerance by no more than a close decision may be that rounding turned over.

    A softmax of scores far apart, a maximum, a clamp: most runs with random rounding see nothing of it.
    """
    return 1 < max(result.whole.ratio, result.worst_tile.ratio) < DOUBTFUL and not result.nonfinite


def are_right(results: Iterable[Result]) -> bool:
    """Whether more rounding, which only ever allows more, would change nothing."""
    return all(map(is_right, results))


def are_certain(results: Iterable[Result]) -> bool:
    """Whether none is so near its tolerance that a rare decision of rounding could explain it."""
    return not any(map(is_doubtful, results))


def error_of(results: list[torch.Tensor], truth: torch.Tensor) -> Errors:
    """The error of several results together."""
    errors = [_finite(result.to(torch.float64) - truth) for result in results]
    squares = torch.stack([rms(error).square() for error in errors]).mean(0)
    return Errors(per_tile=squares.sqrt(), whole=math.sqrt(sum(_whole(error) ** 2 for error in errors) / len(errors)))


def no_error_of(results: list[torch.Tensor], truth: torch.Tensor) -> Errors:
    """The error that no run with random rounding has shown."""
    assert not results
    return Errors(per_tile=torch.zeros_like(rms(truth)), whole=0.0)


def largest_error_of(results: list[torch.Tensor], truth: torch.Tensor) -> Errors:
    """For each tile, and for the whole, the error of the result that is worst there."""
    each = [error_of([result], truth) for result in results]
    return Errors(per_tile=torch.stack([one.per_tile for one in each]).amax(0), whole=max(one.whole for one in each))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How often the definition runs with random rounding, and what is made of those runs."""

    limits: tuple[tuple[int, int], ...]
    """Results of up to so many elements get so many runs."""
    otherwise: int
    """Larger ones get so many."""
    error: Callable[[list[torch.Tensor], torch.Tensor], Errors]
    judges_noise: bool
    settles: Callable[[Iterable[Result]], bool]
    """Whether results judged by it need no more runs."""
    has_baseline: bool = True
    """Whether the definition runs in the case's own type, too."""

    def runs(self, elements: int) -> int:
        """How many runs results of so many elements get."""
        return next((count for limit, count in self.limits if elements <= limit), self.otherwise)


BARE = Sampling(limits=(), otherwise=0, error=no_error_of, judges_noise=True, settles=are_right, has_baseline=False)
"""Where no other run is compared with this one's tolerances: most results are as near as their type can tell."""
UNROUNDED = Sampling(limits=(), otherwise=0, error=no_error_of, judges_noise=True, settles=are_right)
"""As above: of the rest, the eager baseline explains most."""
USUALLY = Sampling(limits=((256, 8), (4096, 4)), otherwise=1, error=error_of, judges_noise=True, settles=are_certain)
IN_DOUBT = Sampling(
    limits=((1 << 16, 32), (1 << 20, 8)), otherwise=4, error=largest_error_of, judges_noise=False, settles=are_certain
)
"""For a result that is beyond its tolerance."""


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


def tolerance_of(expected: Expected, dtype: torch.dtype, slack: float) -> Tolerance:
    """What is allowed to a result of this type; `slack` is the op's factor on the baseline's error."""
    truth = expected.truth
    floor = OWN_ULPS * torch.finfo(dtype).eps + FLOAT32_ULPS * torch.finfo(torch.float32).eps
    size = _finite(truth)
    whole_size = _whole(size)
    columns = tiles(truth).shape[-1]
    return Tolerance(
        whole=slack * expected.baseline.whole
        + chance(expected.samples * truth.numel()) * expected.rounding.whole
        + floor * whole_size
        + _smallest(dtype),
        per_tile=slack * torch.clamp(expected.baseline.per_tile, min=expected.baseline.whole)
        + chance(expected.samples * columns) * torch.clamp(expected.rounding.per_tile, min=expected.rounding.whole)
        + floor * torch.clamp(rms(size), min=whole_size)
        + _smallest(dtype),
    )


def compare(name: str, got: torch.Tensor, expected: Expected, tolerance: Tolerance, *, seed: int | None) -> Result:
    """One output or gradient as facts; with a sketch by the seed, unless no other run is compared with this one."""
    unwritten, first_unwritten = count_poison(got)
    truth = expected.truth.detach().numpy()  # most results are small: NumPy takes a third of torch's time for each step
    wide = got.detach().to(torch.float64).reshape(truth.shape).numpy()
    finite = np.isfinite(wide)
    largest = torch.finfo(got.dtype).max - tolerance.whole  # beyond it, rounding alone may lead to infinity
    judged = np.isfinite(truth) & (np.abs(truth) <= largest) & expected.in_range.numpy()
    if expected.may_overflow:
        judged &= finite
    if not expected.judges_noise:
        judged &= ~_noise(expected).numpy()
    broken = judged & ~finite
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        error = np.where(judged, wide - truth, 0.0)
        rows = _rows(error)
        ratios = np.sqrt(np.square(rows).mean(-1)) / tolerance.per_tile.numpy()
        size = float(np.sqrt(np.square(error).mean())) if error.size else 0.0
    ratios = np.where(np.isnan(ratios), math.inf, ratios)
    worst = int(ratios.argmax()) if ratios.size else 0
    whole = (math.inf if math.isnan(size) else size) / tolerance.whole
    wrong = bool(broken.any()) or not (whole <= 1 and bool((ratios <= 1).all()))
    worst_tile = float(ratios[worst]) if ratios.size else 0.0
    blocks = () if seed is None else _blocks(torch.from_numpy(wide), seed)
    return Result(
        name=name,
        role=expected.role,
        shape=tuple(truth.shape),
        whole=_measure(whole, _worst_element(error, None), wide, truth),
        worst_tile=_measure(worst_tile, _worst_element(error, worst), wide, truth),
        unwritten=unwritten,
        first_unwritten=first_unwritten,
        nonfinite=int(broken.sum()),
        unjudged=truth.size - int(judged.sum()),
        digest=_digest(got),
        sketch=_sums(blocks),
        sketch_tolerance=tuple(4 * tolerance.whole * math.sqrt(max(1, block.numel())) for block in blocks),
        wrong_where=_wrong_where(torch.from_numpy(np.where(broken, math.inf, error)), tolerance) if wrong else None,
        unwritten_where=_unwritten_where(got) if unwritten else None,
    )


def _rows(values: Array) -> Array:
    """As `tiles`."""
    return values if values.ndim == 2 and values.size else tiles(torch.from_numpy(values)).numpy()


def sketch(name: str, got: torch.Tensor, *, seed: int) -> Sketch:
    """One output or gradient as far as another run's needs it; the tolerance is the other's."""
    projections = _sums(_blocks(got.detach().to(torch.float64), seed))
    return Sketch(name=name, shape=tuple(got.shape), projections=projections)


def _wrong_where(error: torch.Tensor, tolerance: Tolerance) -> Spread:
    """Each element's error, measured by the tolerance of its tile."""
    rows = tiles(error.abs()) / tolerance.per_tile[:, None]
    each = torch.nan_to_num(rows, nan=math.inf, posinf=math.inf).reshape(-1)[: error.numel()]
    return spread.largest(tuple(error.shape), each.numpy())


def _unwritten_where(got: torch.Tensor) -> Spread | None:
    fresh = still_fresh(got)
    return None if fresh is None else spread.share(tuple(got.shape), fresh.reshape(-1).nonzero()[:, 0].numpy())


def _noise(expected: Expected) -> torch.Tensor:
    """The elements of rows that random rounding moves by more than their size: where scores tie, nothing is right."""
    truth = expected.truth
    is_noise = expected.rounding.per_tile > rms(_finite(truth))
    rows = is_noise[:, None].expand(-1, tiles(truth).shape[-1])
    return rows.reshape(-1)[: truth.numel()].reshape(truth.shape)


def _digest(values: torch.Tensor) -> str:
    """Of the bytes, with all NaNs alike: which of two that meet is kept is open."""
    if values.is_floating_point() and bool((nans := values.detach().isnan()).any()):
        values = values.detach().masked_fill(nans, math.nan)
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


def _worst_element(error: Array, tile: int | None) -> tuple[int, ...]:
    """Index of the largest error, a NaN counting as the largest; within one tile, or anywhere."""
    if not error.size:
        return ()
    size = np.abs(error)
    size = np.where(np.isnan(size), math.inf, size)
    first = 0
    if tile is not None:
        rows = _rows(size)
        first = tile * rows.shape[-1]
        size = rows[tile]
    flat = min(first + int(size.argmax()), error.size - 1)
    return tuple(int(part) for part in np.unravel_index(flat, error.shape))


def _measure(ratio: float, index: tuple[int, ...], got: Array, truth: Array) -> Measure:
    if not truth.size:
        return Measure(ratio=0.0, index=(), got=0.0, expected=0.0)
    return Measure(ratio=float(ratio), index=index, got=float(got[index]), expected=float(truth[index]))


def _blocks(values: torch.Tensor, seed: int) -> tuple[torch.Tensor, ...]:
    """A few blocks of the flat tensor, every element with a random sign."""
    flat = values.reshape(-1)
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, flat.shape, generator=generator).to(torch.float64) * 2 - 1
    return torch.tensor_split(flat * signs, min(SKETCHES, max(1, flat.numel())))


def _sums(blocks: tuple[torch.Tensor, ...]) -> tuple[float, ...]:
    """The projections: of two right runs, each may differ by what adds up in its block."""
    return tuple(float(block.sum()) for block in blocks)
