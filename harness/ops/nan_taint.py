"""What a spoiled case holds: infinity or NaN throughout, at one place of a dim along which the op keeps inputs apart.

A lane that strays into a neighbouring row, head or sequence does no harm as long as it is multiplied by zero, and as
long as what it read is finite.  The reference tells what the spoiled place does reach: where the truth is not finite,
nothing is judged.  Nor is anything where the truth is finite only because it swallowed infinity, as a softmax does with
a score of minus infinity: with NaN in its place the truth shows it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from harness.model.case import Case, Scale, ValueDistribution
from harness.model.input_spec import Tensor
from harness.model.op import Op

FILLS = (math.nan, math.inf, -math.inf)
"""Infinity goes where a maximum swallows NaN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoiled:
    """One place of one dim, for all inputs together."""

    dim: str
    place: int
    fill: float

    def spoil(self, declared: Tensor, values: torch.Tensor) -> None:
        """Overwrite the place along each axis of an input that is this dim alone."""
        for axis, extent in enumerate(declared.shape):
            if extent == self.dim:
                values.select(axis, self.place).fill_(self.fill)

    def beside(self, declared: Tensor, dims: Mapping[str, int]) -> torch.Tensor:
        """The cells of an input's gradient that the place has nothing to do with by their indices.

        Not those of a gradient that sums over the dim, nor those at the place itself: where the definition adds nothing
        there, a kernel may add zero times NaN.  Where an axis is made of the dim and others, the place is not known.
        """
        axes = [axis for axis, extent in enumerate(declared.shape) if self.dim in Tensor(shape=(extent,)).named]
        is_known = bool(axes) and all(declared.shape[axis] == self.dim for axis in axes)
        cells = torch.full(declared.extents(dims), is_known)
        for axis in axes:
            if is_known:
                cells.select(axis, self.place).fill_(False)  # noqa: FBT003 - the cells' value
        return cells


def spoiled_place(op: Op, case: Case, generator: torch.Generator) -> Spoiled | None:
    """Where the case is spoiled; None where it is not, or where every such dim has but one place."""
    if case.values is not ValueDistribution.SPOILED or case.scale is not Scale.USUAL:
        return None
    dims = [name for name in op.apart if case.dims[name] > 1]
    if not dims:
        return None
    dim = dims[_one_of(len(dims), generator)]
    place = _one_of(case.dims[dim], generator)
    return Spoiled(dim=dim, place=place, fill=FILLS[_one_of(len(FILLS), generator)])


def holds_infinity(inputs: Mapping[str, torch.Tensor | None]) -> bool:
    """Whether one of the case's inputs is spoiled with infinity."""
    return any(value is not None and bool(value.isinf().any()) for value in inputs.values())


def unknown(inputs: Mapping[str, torch.Tensor | None]) -> dict[str, torch.Tensor | None]:
    """The inputs with NaN where they are infinite: what that reaches in a definition, the spoiled place reaches."""
    return {
        name: value if value is None or not value.is_floating_point() else value.masked_fill(value.isinf(), math.nan)
        for name, value in inputs.items()
    }


def _one_of(count: int, generator: torch.Generator) -> int:
    return int(torch.randint(count, (), generator=generator))
