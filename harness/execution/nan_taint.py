"""The taint of a NaN-tainted case: all elements at one index of an independent dim of the op are infinite or NaN.

A lane may stray into a neighbouring row, head or sequence.  That is harmless as long as its value is finite and
multiplied by zero.  A taint makes it visible.  The reference shows which results the taint may legitimately reach:
elements whose truth is not finite are not checked.  A truth may also be finite because it absorbed infinity, as a
softmax does with a score of minus infinity.  A reference with NaN in the place of infinity shows these elements, and
they are not checked either.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from harness.model.case import Case, Scale, ValueDistribution
from harness.model.input_spec import Tensor
from harness.model.op import Op

FILLS = (math.nan, math.inf, -math.inf)
"""The values of a taint.  Infinity reaches results where a maximum ignores NaN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NanTaint:
    """One index of one dim, for all inputs together."""

    dim: str
    index: int
    fill: float

    def taint(self, declared: Tensor, values: torch.Tensor) -> None:
        """Overwrite the index along each axis of an input whose extent is this dim alone."""
        for axis, extent in enumerate(declared.shape):
            if extent == self.dim:
                values.select(axis, self.index).fill_(self.fill)

    def independent_cells(self, declared: Tensor, dims: Mapping[str, int]) -> torch.Tensor:
        """Return the mask of an input's gradient with True for cells that the taint must not reach.

        The taint may reach a gradient that sums over the dim.  It may reach cells at the tainted index itself, since a
        kernel may add zero times NaN where the definition adds nothing.  If an axis combines the dim with others, it
        may reach any cell.
        """
        axes = [axis for axis, extent in enumerate(declared.shape) if self.dim in Tensor(shape=(extent,)).named]
        is_known = bool(axes) and all(declared.shape[axis] == self.dim for axis in axes)
        cells = torch.full(declared.extents(dims), is_known)
        for axis in axes:
            if is_known:
                cells.select(axis, self.index).fill_(False)  # noqa: FBT003 - the cells' value
        return cells


def nan_taint(op: Op, case: Case, generator: torch.Generator) -> NanTaint | None:
    """Return the case's taint; None without one, or if every independent dim has a size of 1."""
    if case.values is not ValueDistribution.NAN_TAINTED or case.scale is Scale.OVERSIZED:
        return None
    dims = [name for name in op.apart if case.dims[name] > 1]
    if not dims:
        return None
    dim = dims[_draw_index(len(dims), generator)]
    index = _draw_index(case.dims[dim], generator)
    return NanTaint(dim=dim, index=index, fill=FILLS[_draw_index(len(FILLS), generator)])


def holds_infinity(inputs: Mapping[str, torch.Tensor | None]) -> bool:
    return any(value is not None and bool(_computable(value).isinf().any()) for value in inputs.values())


def infinity_as_nan(inputs: Mapping[str, torch.Tensor | None]) -> dict[str, torch.Tensor | None]:
    """Return the inputs with NaN in the place of infinity."""
    return {
        name: value if value is None or not value.is_floating_point() else _with_nan(value)
        for name, value in inputs.items()
    }


def _with_nan(value: torch.Tensor) -> torch.Tensor:
    numbers = _computable(value)
    return numbers.masked_fill(numbers.isinf(), math.nan).to(value.dtype)


def _computable(value: torch.Tensor) -> torch.Tensor:
    """Return the numbers in a type that torch computes with: it only stores and converts those of eight bits."""
    return value.float() if value.is_floating_point() and value.itemsize == 1 else value


def _draw_index(count: int, generator: torch.Generator) -> int:
    return int(torch.randint(count, (), generator=generator))
