"""The trials of a row check: the same rows of a case, computed in other company, and compared to the bit.

Every trial is a list of indices for each dim that the rows have: a part of the rows, another order, other rows in the
place of some, or more rows.  All inputs that carry the dim are indexed alike, so a trial needs no new values, and each
of its rows is legal.

Which axis of an output carries the rows is not declared.  The first trial changes their number, and the axis whose
extent follows is theirs.  It keeps few rows, so it costs little.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch

from harness.engines.torch.torch_seam import OperatorMode
from harness.execution.compare import checked_cells
from harness.execution.inputs import generator_of, make_inputs
from harness.execution.layouts import lay_out
from harness.execution.paired_run_policy import choice_number
from harness.execution.poison import SAME_SIZE
from harness.execution.result_forms import Tensors
from harness.execution.tolerance import Array, Expected, Tolerance, sizes
from harness.model.case import Case
from harness.model.input_spec import Shaped
from harness.model.op import Op
from harness.model.paired_run import launch_of
from harness.model.row_check import PLAIN_SUMS, RowChange, RowDifference, SettingChange
from harness.model.run import Launch

ATTEMPTS = 8
"""Numbers of rows that are drawn before a trial is given up, since the op refuses them."""
FEW_ROWS = 4
"""The most rows of the trial that finds the axes, unless it is the only one."""
MORE_ROWS = 64
"""The most rows that a trial adds to a case of few."""

SUMS = {*PLAIN_SUMS, *(f"aten.{name}" for name in (
    "addbmm", "addmm", "addmv", "baddbmm", "bmm", "convolution", "dot", "linear", "mkldnn_linear", "mm", "mv",
    "_scaled_mm",
))}  # fmt: skip
"""Operators of torch whose terms the CPU adds up in an order that follows the sizes."""

Axes = Mapping[int, str]
"""By axis of a result, the dim that it carries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """Rows of a case in other company."""

    change: RowChange
    case: Case
    """The case of the trial: with other dims, if the number of rows changes."""
    original: Case
    taken: Mapping[str, torch.Tensor]
    """By dim, for each index of the trial that of the case from which it is taken."""
    kept: Mapping[str, torch.Tensor]
    """By dim, the indices of the trial that are compared."""
    rows: int
    """The number of rows that are compared."""
    bounds: tuple[str, torch.Tensor] | None = None
    """The name and the value of the input with the boundaries of packed sequences."""

    @property
    def changed_dims(self) -> dict[str, int]:
        return {name: size for name, size in self.case.dims.items() if size != self.original.dims[name]}

    def inputs(self, op: Op, case: Case) -> dict[str, torch.Tensor | None]:
        """Return the inputs of the trial: those of the original case, with their rows arranged."""
        assert case == self.case
        return {
            name: None if value is None else self._input(op, name, value)
            for name, value in make_inputs(op, self.original).items()
        }

    def axes_of_input(self, op: Op, name: str, shape: tuple[int, ...]) -> Axes:
        """Return the axes of an input, or of its gradient, that carry rows; one that broadcasts does not."""
        declared = op.inputs[name]
        if not isinstance(declared, Shaped):
            return {}
        named = ((axis, extent) for axis, extent in enumerate(declared.shape) if extent in self.taken)
        return {axis: str(extent) for axis, extent in named if shape[axis] == self.original.dims[str(extent)]}

    def axes_of_output(self, before: tuple[int, ...], after: tuple[int, ...]) -> Axes | None:
        """Return the axes of an output whose extents follow the number of rows; None if something else changes."""
        if len(before) != len(after):
            return None
        axes: dict[int, str] = {}
        for axis, extents in enumerate(zip(before, after, strict=True)):
            if extents[0] != extents[1]:
                dims = (dim for dim in self.taken if extents == (self.original.dims[dim], self.case.dims[dim]))
                if (dim := next(dims, None)) is None:
                    return None
                axes[axis] = dim
        return axes

    def arranged(self, values: torch.Tensor, axes: Axes) -> torch.Tensor:
        """Return values of the case as the trial has them."""
        return _indexed(values, {axis: self.taken[dim] for axis, dim in axes.items()})

    def _input(self, op: Op, name: str, value: torch.Tensor) -> torch.Tensor:
        if self.bounds is not None and name == self.bounds[0]:
            arranged = self.bounds[1].to(value.dtype)
        else:
            arranged = self.arranged(value.detach(), self.axes_of_input(op, name, tuple(value.shape)))
        return lay_out(arranged.contiguous(), self.original.layout_of(name)).requires_grad_(value.requires_grad)


class TorchSums(OperatorMode):
    """While active, notes the operators by which torch adds up terms."""

    def __init__(self, names: dict[str, None]) -> None:
        """Their names become the keys of `names`, so that several threads share them."""
        super().__init__()
        self._names = names

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run the operator, and note it if it adds up terms."""
        name = str(func).rpartition(".")[0]
        if name in SUMS:
            self._names[name] = None
        return func(*args, **(kwargs or {}))


@dataclass(slots=True)
class OutputAxes:
    """The axes of outputs that carry rows, as far as trials have shown them."""

    by_name: dict[str, Axes] = field(default_factory=dict[str, Axes])
    sums_rows: bool = False
    """True if a differentiable output combines rows, so that gradients of a row depend on others."""


def arrangements(op: Op, case: Case) -> tuple[str, bool, tuple[Arrangement, ...]]:
    """Return the rows of a check, whether they are packed sequences, and its trials; none if no change is legal."""
    draws = generator_of(case, "rows:")
    number = choice_number(case) // 2
    if op.sequences and op.sequences not in case.absent:
        sequences = tuple(_sequences(op, case, draws, list(RowChange)[number % len(RowChange)]))
        return op.sequences, True, sequences
    dims = tuple(op.independent)
    if not dims:
        return op.sequences, True, ()
    dim = dims[number // len(RowChange) % len(dims)]
    return dim, False, tuple(_rows(op, case, dim, draws, list(RowChange)[number % len(RowChange)]))


def _rows(op: Op, case: Case, dim: str, draws: torch.Generator, change: RowChange) -> Iterator[Arrangement]:
    count = case.dims[dim]
    most = count - 1 if change is RowChange.PART else min(FEW_ROWS, count - 1)
    part = next((size for size in _sizes(draws, 1, most) if _legal(op, case, {dim: size})), None)
    if part is not None:
        begin = _draw(draws, 0, count - part)
        index = torch.arange(begin, begin + part)
        yield _arrangement(case, RowChange.PART, {dim: index}, {dim: torch.arange(part)}, part)
    if change in {RowChange.PERMUTED, RowChange.OTHER_VALUES} and part is not None:
        if change is RowChange.PERMUTED:
            index, kept = torch.randperm(count, generator=draws), torch.arange(count)
        else:
            kept = torch.randperm(count, generator=draws)[: _draw(draws, 1, count - 1)].sort().values
            index = _others_drawn(count, kept, draws)
        yield _arrangement(case, change, {dim: index}, {dim: kept}, len(kept))
    elif change is RowChange.PADDED or part is None:
        more = (count + size for size in _sizes(draws, 1, max(count, MORE_ROWS)))
        larger = next((size for size in more if _legal(op, case, {dim: size})), None)
        if larger is not None:
            added = torch.randint(count, (larger - count,), generator=draws)
            index = torch.cat([torch.arange(count), added])
            yield _arrangement(case, RowChange.PADDED, {dim: index}, {dim: torch.arange(count)}, count)


def _sequences(op: Op, case: Case, draws: torch.Generator, change: RowChange) -> Iterator[Arrangement]:
    bounds = make_inputs(op, case)[op.sequences]
    declared = op.inputs[op.sequences]
    assert bounds is not None
    total, count = sorted(declared.named, key=lambda dim: dim != getattr(declared, "total", ""))
    ends: list[int] = bounds.tolist()
    spans = [range(begin, end) for begin, end in pairwise(ends)]
    movable = _movable(spans, are_as_many=case.dims[total] == case.dims[count])
    if len(spans) != case.dims[count] or len(spans) < 2 or not movable:
        return

    def packed(change: RowChange, order: list[int], kept: list[int]) -> Arrangement | None:
        """Return the sequences in this order, of which those at the `kept` places are compared."""
        tokens = [token for place in order for token in spans[place]]
        new_ends = [0]
        for place in order:
            new_ends.append(new_ends[-1] + len(spans[place]))
        if not _legal(op, case, {total: len(tokens), count: len(order)}):
            return None
        kept_tokens = [at for place in kept for at in range(new_ends[place], new_ends[place + 1])]
        taken = {total: torch.tensor(tokens), count: torch.tensor(order)}
        compared = {total: torch.tensor(kept_tokens), count: torch.tensor(kept)}
        made = _arrangement(case, change, taken, compared, len(kept))
        return replace(made, bounds=(op.sequences, torch.tensor(new_ends)))

    alone = movable[_draw(draws, 0, len(movable) - 1)]
    part = packed(RowChange.PART, [alone], [0])
    if part is not None:
        yield part
    order = list(range(len(spans)))
    other = None
    if change is RowChange.PERMUTED and part is not None:
        order = torch.randperm(len(spans), generator=draws).tolist()
        other = packed(change, order, list(range(len(order))))
    elif change is RowChange.OTHER_VALUES and part is not None:
        chosen = packed(change, order, [alone])
        other = None if chosen is None else _with_other_tokens(chosen, total, count, draws)
    elif change is RowChange.PADDED or part is None:
        other = packed(RowChange.PADDED, [*order, movable[_draw(draws, 0, len(movable) - 1)]], order)
    if other is not None:
        yield other


def _movable(spans: Sequence[range], *, are_as_many: bool) -> list[int]:
    """Return the places of sequences that a trial may take or leave out; none of them is empty.

    If there are as many tokens as sequences, one token more or less would not tell which of both an output's axis
    carries, unless each sequence has one.
    """
    filled = [place for place, span in enumerate(spans) if span]
    if are_as_many and any(len(span) != 1 for span in spans):
        return [place for place in filled if len(spans[place]) != 1]
    return filled


def _with_other_tokens(chosen: Arrangement, total: str, count: str, draws: torch.Generator) -> Arrangement:
    """Return the arrangement with other tokens in the sequences that are not kept; their states stay."""
    tokens = _others_drawn(len(chosen.taken[total]), chosen.kept[total], draws)
    return replace(chosen, taken={total: tokens, count: chosen.taken[count]})


def _others_drawn(count: int, kept: torch.Tensor, draws: torch.Generator) -> torch.Tensor:
    """Return the indices of rows: the kept ones at their places, and any of the others at the other places."""
    index = torch.arange(count)
    is_other = torch.ones(count, dtype=torch.bool)
    is_other[kept] = False
    others = index[is_other]
    if len(others):
        index[is_other] = others[torch.randint(len(others), (len(others),), generator=draws)]
    return index


def _arrangement(
    case: Case, change: RowChange, taken: Mapping[str, torch.Tensor], kept: Mapping[str, torch.Tensor], rows: int
) -> Arrangement:
    dims = {**case.dims, **{dim: len(index) for dim, index in taken.items()}}
    return Arrangement(change=change, case=replace(case, dims=dims), original=case, taken=taken, kept=kept, rows=rows)


def _legal(op: Op, case: Case, dims: Mapping[str, int]) -> bool:
    return op.allows(replace(case, dims={**case.dims, **dims}))


def _sizes(draws: torch.Generator, low: int, high: int) -> Iterator[int]:
    """Yield numbers of rows, small ones as often as large ones."""
    for _ in range(ATTEMPTS if high >= low else 0):
        upper = low + (high - low >> _draw(draws, 0, (high - low).bit_length()))
        yield _draw(draws, low, upper)


def _draw(draws: torch.Generator, low: int, high: int) -> int:
    return int(torch.randint(low, high + 1, (), generator=draws))


def _indexed(values: torch.Tensor, indices: Mapping[int, torch.Tensor]) -> torch.Tensor:
    is_byte = values.is_floating_point() and values.element_size() == 1  # torch cannot index these
    plain = values.view(torch.uint8) if is_byte else values
    for axis, index in indices.items():
        plain = plain.index_select(axis, index)
    return plain.contiguous().view(values.dtype)


# --- the comparison ---


@dataclass(frozen=True, slots=True, kw_only=True)
class RowComparison:
    """The results of a trial beside those of the case."""

    found: Mapping[str, RowDifference | None] = field(default_factory=dict[str, "RowDifference | None"])
    """By result that carries the rows, how they differ; None for equal bits."""
    torch_sums: tuple[str, ...] = ()
    """As `RowTrial.torch_sums`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedRows:
    """The kept rows of a trial in one result, by axis of the result."""

    here: Mapping[int, torch.Tensor]
    """Their indices in the case."""
    there: Mapping[int, torch.Tensor]
    """Their indices in the trial."""

    @classmethod
    def of(cls, arrangement: Arrangement, axes: Axes) -> Self:
        """Return the rows of an arrangement in a result that carries dims at these axes."""
        taken, kept = arrangement.taken, arrangement.kept
        return cls(
            here={axis: taken[dim][kept[dim]] for axis, dim in axes.items()},
            there={axis: kept[dim] for axis, dim in axes.items()},
        )

    def kept(self, before: torch.Tensor, after: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the kept rows of a result, in the case and in the trial."""
        return _indexed(before.detach(), self.here), _indexed(after.detach(), self.there)

    def index_in_case(self, index: Iterable[int]) -> tuple[int, ...]:
        """Return the index in a result of the case, for an index in its kept rows."""
        return tuple(int(self.here[axis][at]) if axis in self.here else at for axis, at in enumerate(index))


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRows:
    """A trial that was run, and where its rows are."""

    arrangement: Arrangement
    outputs: Mapping[str, Axes]
    """As `OutputAxes.by_name`."""
    carried: Mapping[str, CarriedRows]
    """By result, the rows that were compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What a right result is near to, and how near."""

    expected: Expected
    tolerance: Tolerance


def difference(
    name: str, results: tuple[torch.Tensor, torch.Tensor], rows: CarriedRows, allowance: Allowance
) -> RowDifference | None:
    """Return how the kept rows of a result differ between the case and the trial; None if their bits are equal.

    NaNs are alike.  The ratio leaves out elements that a comparison with the definition does not check.
    """
    before, after = rows.kept(*results)
    differs = _bits(before) != _bits(after)
    if before.is_floating_point():
        differs &= ~(before.isnan() & after.isnan())
    if not bool(differs.any()):
        return None
    first = tuple(int(part) for part in differs.nonzero()[0])
    return RowDifference(
        name=name,
        index=rows.index_in_case(first),
        value=float(before[first]),
        other=float(after[first]),
        cells=int(differs.sum()),
        compared=differs.numel(),
        ratio=_ratio(results[0], (before, after), rows, allowance),
    )


def _ratio(
    result: torch.Tensor, kept: tuple[torch.Tensor, torch.Tensor], rows: CarriedRows, allowance: Allowance
) -> float:
    """Return the difference in units of the tolerances of two right results, over the tensor or its worst tile."""
    before, after = (values.to(torch.float64).numpy() for values in kept)
    index: list[Array] = [np.arange(extent) for extent in result.shape]
    for axis, position in rows.here.items():
        index[axis] = position.numpy()
    with np.errstate(invalid="ignore"):
        apart: Array = np.where((before == after) | (np.isnan(before) & np.isnan(after)), 0.0, after - before)
    error = np.zeros(tuple(result.shape))
    error[np.ix_(*index)] = np.where(np.isnan(apart), np.inf, apart)
    tolerance = allowance.tolerance
    size = sizes(np.where(checked_cells(result, allowance.expected, tolerance), error, 0.0))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        each = np.nan_to_num(size.per_tile / (2 * tolerance.per_tile), nan=0.0, posinf=np.inf)
        whole = size.whole / (2 * tolerance.whole) if tolerance.whole else (np.inf if size.whole else 0.0)
    return float(max(each.max(initial=0.0), whole))


def _bits(values: torch.Tensor) -> torch.Tensor:
    return values.view(SAME_SIZE[values.element_size()])


# --- the causes ---


def setting_changes(before: Iterable[Launch], after: Iterable[Launch]) -> tuple[SettingChange, ...]:
    """Return the kernels that the trial launched with another config, number of warps or constants."""
    first, second = tuple(before), tuple(after)
    changes: list[SettingChange] = []
    for kernel in dict.fromkeys(launch.kernel for launch in first):
        own, other = launch_of(first, kernel), launch_of(second, kernel)
        if own is None:
            continue
        if other is None:
            changes.append(SettingChange(kernel=kernel, before=own.config, after="", is_tile=True))
            continue
        is_tile = (own.tile_sizes, own.num_warps) != (other.tile_sizes, other.num_warps)
        is_config = own.config_count > 1 and own.config != other.config
        mine, others = _settings(own), _settings(other)
        names = [name for name in mine if name in others and mine[name] != others[name]]
        if is_config:
            settings = own.config, other.config
        elif names:
            settings = _listed(mine, names), _listed(others, names)
        else:
            continue
        here, there = settings
        changes.append(SettingChange(kernel=kernel, before=here, after=there, is_config=is_config, is_tile=is_tile))
    return tuple(changes)


def _listed(settings: Mapping[str, object], names: Iterable[str]) -> str:
    return ", ".join(f"{name}: {settings[name]}" for name in names)


def _settings(launch: Launch) -> dict[str, object]:
    return {**launch.constants, "num_warps": launch.num_warps}


def output_cotangents(arrangement: Arrangement, axes: OutputAxes, cotangents: Tensors, outputs: Tensors) -> Tensors:
    """Return cotangents of the trial: those of the case, with their rows arranged.

    Notes the axes of outputs on the way.  An output that carries no rows has the cotangent of the case, if it has one
    of its shape, and zeros otherwise.
    """
    made: Tensors = {}
    changes_size = bool(arrangement.changed_dims)
    for name, output in outputs.items():
        before = cotangents.get(name)
        shape = tuple(output.shape)
        if before is None:
            made[name] = torch.zeros(shape, dtype=output.dtype)
            continue
        if changes_size:
            found = arrangement.axes_of_output(tuple(before.shape), shape)
            axes.by_name[name] = found or {}
            axes.sums_rows |= not found and output.requires_grad
        own = axes.by_name.get(name, {})
        if own:
            values = arrangement.arranged(before, own)
        else:
            values = before if tuple(before.shape) == shape else torch.zeros(shape, dtype=output.dtype)
        made[name] = lay_out(values.contiguous(), arrangement.original.layout_of("grad"))
    return made
