"""Results against their float64 reference, as facts: how far off they are, where most, and what was never written."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from harness.model.paired_run import Sketch
from harness.model.picture import Spread
from harness.model.run import Measure, Result
from harness.ops import error_map
from harness.ops.execution_hooks import Writer
from harness.ops.poison import count_poison, still_fresh
from harness.ops.tolerance import Array, Expected, Tolerance, sizes, tiles

SKETCHES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """What is noted of a result beside how far off it is."""

    writer: Writer = None
    """Who stored it."""
    sketch_seed: int | None
    """What its sketch is made by; None where no other run is compared with this one."""
    where: bool = True
    """Where it is wrong, if it is."""


def compare(name: str, got: torch.Tensor, expected: Expected, tolerance: Tolerance, noted: Noted) -> Result:
    """One output or gradient as facts."""
    truth = expected.truth.values
    wide = got.detach().to(torch.float64).reshape(truth.shape).numpy()
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        error = wide - truth
        size = sizes(error)
        unjudged, broken = 0, None
        if not math.isfinite(size.whole) or not _judges_all(expected, got.dtype, tolerance):
            judged = _judged(wide, expected, got.dtype, tolerance)
            broken = judged & ~np.isfinite(wide)
            unjudged = judged.size - int(judged.sum())
            error = np.where(judged, np.where(broken, math.inf, error), 0.0)
            size = sizes(error)
        ratios = size.per_tile / tolerance.per_tile
    if broken is not None:
        ratios = np.where(np.isnan(ratios), math.inf, ratios)
    whole = size.whole / tolerance.whole
    worst = int(ratios.argmax()) if ratios.size else 0
    worst_ratio = float(ratios[worst]) if ratios.size else 0.0
    nonfinite = 0 if broken is None else int(broken.sum())
    is_wrong = nonfinite > 0 or not (whole <= 1 and worst_ratio <= 1)
    amounts = np.abs(error)
    blocks = () if noted.sketch_seed is None else _blocks(torch.from_numpy(wide), noted.sketch_seed)
    # Poison is NaN: where everything is finite, everything was written.  That of integers may be a right number.
    may_be_unwritten = broken is not None if got.is_floating_point() else is_wrong
    unwritten, first_unwritten = count_poison(got) if may_be_unwritten else (0, None)
    return Result(
        name=name,
        role=expected.role,
        shape=tuple(truth.shape),
        whole=_measure(whole, _worst_element(amounts, None), wide, truth),
        worst_tile=_measure(worst_ratio, _worst_element(amounts, worst), wide, truth),
        unwritten=unwritten,
        first_unwritten=first_unwritten,
        nonfinite=nonfinite,
        unjudged=unjudged,
        digest=_digest(got, may_hold_nan=broken is not None),
        writer=noted.writer,
        sketch=_sums(blocks),
        sketch_tolerance=tuple(4 * tolerance.whole * math.sqrt(max(1, block.numel())) for block in blocks),
        wrong_where=_wrong_where(error, tolerance) if is_wrong and noted.where else None,
        unwritten_where=_unwritten_where(got) if unwritten else None,
    )


def _judges_all(expected: Expected, dtype: torch.dtype, tolerance: Tolerance) -> bool:
    """Whether every element is judged that is finite."""
    truth = expected.truth
    in_reach = truth.finite is None and truth.largest <= _largest(dtype, tolerance)
    return in_reach and expected.in_range is None and expected.judges_noise


def _judged(wide: Array, expected: Expected, dtype: torch.dtype, tolerance: Tolerance) -> Array:
    """Which elements are judged."""
    truth = expected.truth
    judged = np.abs(truth.values) <= _largest(dtype, tolerance)
    if truth.finite is not None:
        judged &= truth.finite
    if expected.in_range is not None:
        judged &= expected.in_range
    if expected.may_overflow:
        judged &= np.isfinite(wide)
    if not expected.judges_noise:
        judged &= ~_noise(expected)
    return judged


def _largest(dtype: torch.dtype, tolerance: Tolerance) -> float:
    """Beyond it, rounding alone may lead to infinity."""
    return torch.finfo(dtype).max - tolerance.whole if dtype.is_floating_point else math.inf


def sketch(name: str, got: torch.Tensor, *, seed: int) -> Sketch:
    """One output or gradient as far as another run's needs it; the tolerance is the other's."""
    projections = _sums(_blocks(got.detach().to(torch.float64), seed))
    return Sketch(name=name, shape=tuple(got.shape), projections=projections)


def _wrong_where(error: Array, tolerance: Tolerance) -> Spread:
    """Each element's error, measured by the tolerance of its tile."""
    with np.errstate(invalid="ignore"):
        rows = tiles(np.abs(error)) / tolerance.per_tile[:, None]
    each = np.nan_to_num(rows, nan=math.inf, posinf=math.inf).reshape(-1)[: error.size]
    return error_map.largest(tuple(error.shape), each)


def _unwritten_where(got: torch.Tensor) -> Spread | None:
    fresh = still_fresh(got)
    return None if fresh is None else error_map.share(tuple(got.shape), fresh.reshape(-1).nonzero()[:, 0].numpy())


def _noise(expected: Expected) -> Array:
    """The elements of rows that random rounding moves by more than their size: where scores tie, nothing is right."""
    values = expected.truth.values
    is_noise = expected.rounding.per_tile > expected.truth.size.per_tile
    rows = np.broadcast_to(is_noise[:, None], tiles(values).shape)
    return rows.reshape(-1)[: values.size].reshape(values.shape)


def _digest(values: torch.Tensor, *, may_hold_nan: bool = True) -> str:
    """Of the bytes, with all NaNs alike: which of two that meet is kept is open."""
    values = values.detach()
    if may_hold_nan and values.is_floating_point() and bool((nans := values.isnan()).any()):
        values = values.masked_fill(nans, math.nan)
    raw = values.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8)
    return hashlib.sha256(raw.numpy().data).hexdigest()[:16]


def digests(results: Mapping[str, torch.Tensor], *, nans_are_alike: bool = True) -> dict[str, str]:
    """Of each result's bytes, by its name: equal for results that are equal bit for bit."""
    return {name: _digest(values, may_hold_nan=nans_are_alike) for name, values in results.items()}


def _worst_element(amounts: Array, tile: int | None) -> tuple[int, ...]:
    """Index of the largest error, within one tile or anywhere."""
    if not amounts.size:
        return ()
    first = 0
    among = amounts
    if tile is not None:
        rows = tiles(amounts)
        first = tile * rows.shape[-1]
        among = rows[tile]
    flat = min(first + int(among.argmax()), amounts.size - 1)
    return tuple(int(part) for part in np.unravel_index(flat, amounts.shape))


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
