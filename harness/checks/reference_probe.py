"""What a reference accepts beyond the samples: small sizes, other sizes of an axis, and numbers of any sign."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import torch

from harness.checks.answer import Answer
from harness.checks.reference import defined_by
from harness.checks.sampled_task import SampledDim, SampledInput, SampledTask
from harness.engines.torch.torch_seam import plain_torch
from harness.execution.inputs import TORCH_DTYPES, in_order
from harness.execution.result_forms import named
from harness.model.input_spec import Draw, extent_of

MOST_IN_GROUP = 3
"""Axes of a dim that differ from its others only together."""
BASES = (8, 16, 32, 64, 128, 256)
DEVIATIONS = (1.0, 3.0, 10.0)
"""Of numbers with which a reference is tried: `log1p` fails below -1 only."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Calls the reference with small tensors."""

    answer: Answer
    task: SampledTask

    def problem(self, sizes: Mapping[str, int]) -> str:
        """Return why the reference fails at these sizes; empty if it returns tensors with elements."""
        try:
            outputs = self.outputs(self.inputs(sizes), sizes)
        except Exception as error:  # noqa: BLE001 - a reference may raise anything
            return f"{type(error).__name__}: {error}"
        if not outputs:
            return "the reference returns no tensor"
        return "" if all(value.numel() for value in outputs.values()) else "the reference returns an empty tensor"

    def outputs(self, inputs: Mapping[str, torch.Tensor], sizes: Mapping[str, int]) -> Mapping[str, torch.Tensor]:
        with plain_torch(), torch.no_grad():
            return named(defined_by(self.answer, inputs, sizes))

    def inputs(self, sizes: Mapping[str, int], deviation: float = 1.0) -> dict[str, torch.Tensor]:
        """Return random inputs; numbers of any sign have the deviation."""
        tensors: dict[str, torch.Tensor] = {}
        for sampled in self.task.inputs:
            shape = [extent_of(extent, sizes) for extent in sampled.shape]
            if sampled.is_integer:
                high = max(extent_of(sampled.high, sizes), sampled.low + 1)
                drawn = _integers(sampled, shape, high)
                if sampled.ignored is not None:
                    drawn.reshape(-1)[: drawn.numel() // 2] = sampled.ignored
                tensors[sampled.name] = drawn.to(torch.int64 if sampled.is_wide else torch.int32)
            else:
                values = torch.randn(shape)
                values = deviation * values if sampled.draw is Draw.VALUES else values.sigmoid()
                values = values.to(TORCH_DTYPES[sampled.dtype or self.task.dtype])
                tensors[sampled.name] = in_order(
                    values, distinct=sampled.has_distinct_rows, ascending=sampled.is_ascending
                )
        return tensors


def _integers(sampled: SampledInput, shape: list[int], high: int) -> torch.Tensor:
    """Return random integers as the samples have them, the largest one among them."""
    count = math.prod(shape)
    if sampled.is_distinct and count <= high - sampled.low:
        drawn = sampled.low + torch.randperm(high - sampled.low)[:count].reshape(shape)
    elif sampled.has_distinct_rows and shape[-1] <= high - sampled.low:
        drawn = sampled.low + torch.rand(*shape[:-1], high - sampled.low).argsort(-1)[..., : shape[-1]]
    else:
        drawn = torch.randint(sampled.low, high, shape)
        drawn.reshape(-1)[-1:] = high - 1  # the largest index counts
    if sampled.is_ascending or sampled.total:
        drawn = drawn.sort(-1).values
    if sampled.total:
        drawn[:1] = 0
    return drawn


def smallest_sizes(probe: Probe, dims: Iterable[SampledDim]) -> tuple[dict[str, int], str]:
    """Return the smallest sizes that the reference accepts: the sample's, each cut to one limit."""
    problem = ""
    for limit in (*BASES, math.inf):
        sizes = {dim.name: dim.choices[0] if dim.choices else int(min(dim.sizes[0], limit)) for dim in dims}
        problem = probe.problem(sizes)
        if not problem:
            return sizes, ""
    return {}, problem


def free_axes(probe: Probe, dim: SampledDim, base: Mapping[str, int]) -> tuple[str, ...]:
    """Return the axes of a dim that may have another size, all at once, although a constructor knows its size.

    A model of 64 channels may have images of 64 rows.  If the reference does not need the size on any axis, the usual
    places of channels stay: the second axis and the last one.
    """
    other_sizes = [factor * dim.sizes[0] + 1 for factor in (1, 2)]

    def accepts(axes: Iterable[str]) -> bool:
        return not any(with_extent(probe, axes, str(size)).problem(base) for size in other_sizes)

    free = [axis for axis in dim.axes if accepts((axis,))]
    if len(free) == len(dim.axes):
        ranks = {sampled.name: len(sampled.shape) for sampled in probe.task.inputs}
        free = [place for place in free if (at := _position(place))[1] not in {1, ranks[at[0]] - 1}]
    return tuple(free) if free and accepts(free) else ()


def independent_axes(probe: Probe, dim: SampledDim, base: Mapping[str, int]) -> list[tuple[str, ...]]:
    """Return the axes of a dim in groups, each of which may have a size of its own; one group if they belong together.

    Axes of a sample may agree by chance, as those of a square matrix.  A group has up to three axes, such as the
    columns of one factor and the rows of the other.  The reference has to accept a smaller size as well as larger ones:
    it may take a part of an axis that is too long.
    """
    size = base[dim.name]
    sizes = [tried for tried in (size - 3, size + 5, 2 * size + 1) if tried > 1]

    def accepts(axes: Iterable[str]) -> bool:
        return not any(with_extent(probe, axes, str(tried)).problem(base) for tried in sizes)

    groups: list[tuple[str, ...]] = []
    rest = list(dim.axes)
    for axis in dim.axes:
        if axis not in rest or len(rest) == 1:
            continue
        partners = [partner for partner in rest if partner != axis]
        candidates = ((axis, *chosen) for count in range(MOST_IN_GROUP) for chosen in combinations(partners, count))
        if (group := next(filter(accepts, candidates), None)) is not None:
            groups.append(group)
            rest = [ungrouped for ungrouped in rest if ungrouped not in group]
    return [*groups, *([tuple(rest)] if rest else [])]


def with_extent(probe: Probe, axes: Iterable[str], extent: str) -> Probe:
    """Return the probe with another extent for some axes: a dim or a size."""
    places = set(map(_position, axes))
    inputs = tuple(
        replace(
            sampled,
            shape=tuple(
                extent if (sampled.name, axis) in places else before for axis, before in enumerate(sampled.shape)
            ),
        )
        for sampled in probe.task.inputs
    )
    return replace(probe, task=replace(probe.task, inputs=inputs))


def _position(place: str) -> tuple[str, int]:
    name, _, axis = place.rpartition(".")
    return name, int(axis)


def with_any_numbers(probe: Probe, base: Mapping[str, int]) -> Probe:
    """Return the probe with inputs of any sign, where the reference is finite for them.

    Problems have inputs of `torch.rand`, for which a ReLU that does nothing is right.
    """
    for index, sampled in enumerate(probe.task.inputs):
        if sampled.is_integer or sampled.draw not in {Draw.UNIT, Draw.POSITIVE}:
            continue
        inputs = list(probe.task.inputs)
        inputs[index] = replace(sampled, draw=Draw.VALUES, is_widened=True)
        wider = replace(probe, task=replace(probe.task, inputs=tuple(inputs)))
        if all(_is_finite(wider, base, deviation) for deviation in DEVIATIONS):
            probe = wider
    return probe


def with_ignored_labels(probe: Probe, base: Mapping[str, int], init_integers: Collection[int]) -> Probe:
    """Return the probe with labels that do not count: a negative number among the constructor's arguments.

    The reference has to accept it, so it is no index of something else.
    """
    for index, sampled in enumerate(probe.task.inputs):
        for value in sorted(value for value in init_integers if _may_be_ignored(value, sampled)):
            inputs = list(probe.task.inputs)
            inputs[index] = replace(sampled, ignored=value)
            wider = replace(probe, task=replace(probe.task, inputs=tuple(inputs)))
            if _is_finite(wider, base, 1.0):
                probe = wider
                break
    return probe


def _may_be_ignored(value: int, sampled: SampledInput) -> bool:
    return sampled.is_integer and sampled.ignored is None and value < min(sampled.low, 0)


def _is_finite(probe: Probe, base: Mapping[str, int], deviation: float) -> bool:
    try:
        outputs = probe.outputs(probe.inputs(base, deviation), base)
    except Exception:  # noqa: BLE001 - a reference may raise anything
        return False
    return all(bool(value.double().isfinite().all()) for value in outputs.values())
