"""The comparison of results with their float64 reference: errors, where they are largest, and unwritten cells."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from harness.execution import counter_numbers, error_map
from harness.execution.array_functions import count, functions_of, is_tensor, on_cpu, wide
from harness.execution.layouts import nan_byte
from harness.execution.poison import count_poison, still_fresh
from harness.execution.result_forms import kind_of
from harness.execution.tolerance import Array, Expected, Tolerance, sizes, tiles
from harness.model.paired_run import Sketch
from harness.model.picture import Spread
from harness.model.run import Measure, NanResult, Result, Writer

COUNTED_BYTES = 1 << 24
"""Larger tensors have a digest that a GPU computes as well; that of smaller ones is SHA-256's."""
SKETCHES = 8
"""Random projections of each result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """The facts of a result to record in addition to its error."""

    writer: Writer = None
    """The kernel and argument that stored the result."""
    sketch_seed: int | None
    """The seed of its sketch; None if no other run is compared with this one."""
    has_error_map: bool = True
    """True if a wrong result gets a map of its errors."""


def compare(name: str, got: torch.Tensor, expected: Expected, tolerance: Tolerance, noted: Noted) -> Result:
    """Return the facts of one output or gradient."""
    truth = expected.truth.values
    values, functions = wide(got, as_tensor=is_tensor(truth)).reshape(truth.shape), functions_of(truth)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        error = values - truth if expected.neighbours is None else expected.neighbours.beyond(values)
        size = sizes(error)
        unchecked, broken = 0, None
        if not math.isfinite(size.whole) or not _checks_all(expected, got.dtype, tolerance):
            checked = _checked(values, expected, got.dtype, tolerance)
            broken = checked & ~functions.isfinite(values)
            unchecked = count(checked) - int(checked.sum())
            error = functions.where(checked, functions.where(broken, math.inf, error), 0.0)
            size = sizes(error)
        ratios = size.per_tile / tolerance.per_tile
    if broken is not None:
        ratios = functions.where(functions.isnan(ratios), math.inf, ratios)
    whole = size.whole / tolerance.whole
    worst = int(ratios.argmax()) if count(ratios) else 0
    worst_ratio = float(ratios[worst]) if count(ratios) else 0.0
    nonfinite = 0 if broken is None else int(broken.sum())
    is_wrong = nonfinite > 0 or not (whole <= 1 and worst_ratio <= 1)
    amounts = functions.abs(error)
    blocks = () if noted.sketch_seed is None else _blocks(torch.as_tensor(values), noted.sketch_seed)
    # Poison is NaN, so everything was written if everything is finite.  Poison of integers may be a right number.
    may_be_unwritten = broken is not None if got.is_floating_point() else is_wrong
    unwritten, first_unwritten = count_poison(got) if may_be_unwritten else (0, None)
    return Result(
        name=name,
        role=expected.role,
        shape=tuple(truth.shape),
        kind=kind_of(got.dtype),
        whole=_measure(whole, _worst_element(amounts, None), values, truth),
        worst_tile=_measure(worst_ratio, _worst_element(amounts, worst), values, truth),
        unwritten=unwritten,
        first_unwritten=first_unwritten,
        nonfinite=nonfinite,
        unjudged=unchecked,
        digest=_digest(got, may_hold_nan=broken is not None),
        writer=noted.writer,
        sketch=_sums(blocks),
        sketch_tolerance=tuple(4 * tolerance.whole * math.sqrt(max(1, block.numel())) for block in blocks),
        wrong_map=_wrong_map(error, tolerance) if is_wrong and noted.has_error_map else None,
        unwritten_map=_unwritten_map(got) if unwritten else None,
    )


def nan_result(name: str, got: torch.Tensor, writer: Writer) -> NanResult:
    """Return the facts of a result that holds NaN and has no definition."""
    cells = got.detach().isnan()
    first = np.unravel_index(int(cells.reshape(-1).to(torch.uint8).argmax()), tuple(got.shape))
    return NanResult(
        name=name,
        shape=tuple(got.shape),
        cells=int(cells.sum()),
        first=tuple(map(int, first)),
        unwritten=count_poison(got)[0],
        writer=writer,
    )


def _checks_all(expected: Expected, dtype: torch.dtype, tolerance: Tolerance) -> bool:
    """Return True if every element is checked."""
    truth = expected.truth
    in_reach = truth.finite is None and truth.largest <= _largest_checked(dtype, tolerance)
    return in_reach and expected.in_range is None and expected.checks_noise


def checked_cells(result: torch.Tensor, expected: Expected, tolerance: Tolerance) -> Array:
    """Return the mask of the elements of a result that `compare` checks."""
    values = wide(result).reshape(expected.truth.values.shape)
    return _checked(values, expected, result.dtype, tolerance)


def _checked(values: Array, expected: Expected, dtype: torch.dtype, tolerance: Tolerance) -> Array:
    """Return the mask of elements that are checked."""
    truth = expected.truth
    functions = functions_of(values)
    checked = functions.abs(truth.values) <= _largest_checked(dtype, tolerance)
    if truth.finite is not None:
        checked &= truth.finite
    if expected.in_range is not None:
        checked &= expected.in_range
    if expected.may_overflow:
        checked &= functions.isfinite(values)
    if not expected.checks_noise:
        checked &= ~_noise(expected)
    return checked


def _largest_checked(dtype: torch.dtype, tolerance: Tolerance) -> float:
    """Return the largest value whose rounding cannot lead to infinity."""
    return torch.finfo(dtype).max - tolerance.whole if dtype.is_floating_point else math.inf


def sketch(name: str, got: torch.Tensor, *, seed: int) -> Sketch:
    """Return the sketch of one output or gradient of a paired run, without a tolerance."""
    projections = _sums(_blocks(got.detach().to(torch.float64), seed))
    return Sketch(name=name, shape=tuple(got.shape), projections=projections)


def _wrong_map(error: Array, tolerance: Tolerance) -> Spread:
    """Return a map of each element's error in units of the tolerance of its tile."""
    with np.errstate(invalid="ignore"):
        rows = tiles(np.abs(on_cpu(error))) / on_cpu(tolerance.per_tile)[:, None]
    each = np.nan_to_num(rows, nan=math.inf, posinf=math.inf).reshape(-1)[: count(error)]
    return error_map.largest(tuple(error.shape), each)


def _unwritten_map(got: torch.Tensor) -> Spread | None:
    fresh = still_fresh(got)
    return None if fresh is None else error_map.share(tuple(got.shape), fresh.reshape(-1).nonzero()[:, 0].cpu().numpy())


def _noise(expected: Expected) -> Array:
    """Return the mask of elements in rows that random rounding moves by more than their size.

    No value is right or wrong there, for example where two scores of a softmax tie.
    """
    values = expected.truth.values
    is_noise = expected.rounding.per_tile > expected.truth.size.per_tile
    rows = functions_of(values).broadcast_to(is_noise[:, None], tiles(values).shape)
    return rows.reshape(-1)[: count(values)].reshape(values.shape)


def _digest(values: torch.Tensor, *, may_hold_nan: bool = True) -> str:
    """Return the digest of the bytes, with all NaNs alike: an operation on two NaNs may return either."""
    values = values.detach()
    if may_hold_nan and values.is_floating_point() and bool((nans := values.isnan()).any()):
        if values.itemsize == 1:  # torch 2.13 cannot fill float8
            values = values.view(torch.uint8).masked_fill(nans, nan_byte(values.dtype))
        else:
            values = values.masked_fill(nans, math.nan)
    raw = values.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8)
    whole_words = raw.numel() // 8 * 8
    if raw.numel() <= COUNTED_BYTES:
        return _sha256(raw)
    return f"{counter_numbers.checksum(raw[:whole_words].view(torch.int64)):016x}{_sha256(raw[whole_words:])[:4]}"


def _sha256(raw: torch.Tensor) -> str:
    return hashlib.sha256(raw.cpu().numpy().data).hexdigest()[:16]


def digests(results: Mapping[str, torch.Tensor], *, nans_are_alike: bool = True) -> dict[str, str]:
    """Return digests of the results' bytes by name; equal for results that are equal bit for bit."""
    return {name: _digest(values, may_hold_nan=nans_are_alike) for name, values in results.items()}


def _worst_element(amounts: Array, tile: int | None) -> tuple[int, ...]:
    """Return the index of the largest error, in one tile or in the whole tensor."""
    size = count(amounts)
    if not size:
        return ()
    first = 0
    among = amounts
    if tile is not None:
        rows = tiles(amounts)
        first = tile * rows.shape[-1]
        among = rows[tile]
    flat = min(first + int(among.argmax()), size - 1)
    return tuple(int(part) for part in np.unravel_index(flat, tuple(amounts.shape)))


def _measure(ratio: float, index: tuple[int, ...], got: Array, truth: Array) -> Measure:
    if not count(truth):
        return Measure(ratio=0.0, index=(), got=0.0, expected=0.0)
    return Measure(ratio=float(ratio), index=index, got=float(got[index]), expected=float(truth[index]))


def _blocks(values: torch.Tensor, seed: int) -> tuple[torch.Tensor, ...]:
    """Return a few blocks of the flat tensor, in which every element has a random sign."""
    flat = values.reshape(-1)
    if flat.numel() > counter_numbers.LARGE:
        signs = counter_numbers.signs(seed, flat.numel(), flat.device)
    else:
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randint(0, 2, flat.shape, generator=generator, device="cpu")
        signs = drawn.to(flat.device).to(torch.float64) * 2 - 1
    return torch.tensor_split(flat * signs, min(SKETCHES, max(1, flat.numel())))


def _sums(blocks: tuple[torch.Tensor, ...]) -> tuple[float, ...]:
    """Return the projections.  Those of two right runs may differ by the accumulated errors of their block."""
    return tuple(float(block.sum()) for block in blocks)
