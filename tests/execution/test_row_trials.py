"""Trials of a row check index all inputs alike, find the axes of outputs, and compare kept rows to the bit."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from harness import catalogue
from harness.execution.execution import Execution
from harness.execution.inputs import make_inputs
from harness.execution.row_checks import check_rows
from harness.execution.row_trials import Arrangement, CarriedRows, RowComparison, arrangements
from harness.model.case import Case, DType, Layout
from harness.model.op import Op
from harness.model.row_check import RowChange, RowCheck
from harness.model.run import Completed, Ending, Launch, Run
from harness.suite import Dim, op, segments, tensor, tokens, width

DEVICE = catalogue.find("h200")
ROWS: Mapping[str, Any] = {
    "dims": {"T": tokens(40), "D": width(16)},
    "inputs": {"x": tensor("T", "D"), "w": tensor("D")},
    "dtypes": (DType.FP32,),
}
PACKED: Mapping[str, Any] = {
    "dims": {"T": tokens(40), "N": Dim(low=1, high=6), "D": width(8)},
    "inputs": {"x": tensor(1, "T", "D"), "state": tensor("N", "D"), "bounds": segments("T", "N")},
    "dtypes": (DType.FP32,),
    "where": lambda at: at["N"] <= at["T"],
}
SEEDS = {change: 16 * number for number, change in enumerate(RowChange)}
"""For each change, the seed of a case that gets it."""


@op(**ROWS, independent=("T",))
def scaled(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    return x * w, x.sum(0)


scaled.reference(lambda x, w: (x * w, x.sum(0)))


@op(**ROWS, independent=("T",))
def centred(x: Tensor, w: Tensor) -> Tensor:
    """Rows are not independent here."""
    return (x - x.mean(0)) * w


centred.reference(lambda x, w: (x - x.mean(0)) * w)


@op(**ROWS, independent=("T",))
def rounded_by_rows(x: Tensor, w: Tensor) -> Tensor:
    return x * w * (1 + 2.0**-23 * (x.shape[0] > 8))


rounded_by_rows.reference(lambda x, w: x * w)


@op(**PACKED, sequences="bounds")
def shifted(x: Tensor, state: Tensor, bounds: Tensor) -> tuple[Tensor, Tensor]:
    lengths = bounds.diff()
    last = x[0][bounds[1:] - 1]
    return x + state.repeat_interleave(lengths, 0), last * state


shifted.reference(
    lambda x, state, bounds: (x + state.repeat_interleave(bounds.diff(), 0), x[0][bounds[1:] - 1] * state)
)


def doubled_and_summed(x: Tensor, scale: Tensor, bounds: Tensor) -> tuple[Tensor, Tensor]:
    """Return a number for each token, and one for each sequence, of which some are empty."""
    return x * 2, torch.stack([part.sum() for part in x.tensor_split(bounds[1:-1])]) * scale


summed = op(
    dims={"T": tokens(40), "N": Dim(low=1, high=12)},
    inputs={"x": tensor("T"), "scale": tensor("N"), "bounds": segments("T", "N", may_be_empty=True)},
    dtypes=(DType.FP32,),
    sequences="bounds",
)(doubled_and_summed)
summed.reference(doubled_and_summed)


def case_of(declared: Op, change: RowChange, **dims: int) -> Case:
    return Case(op=declared.id, dims=dims, dtype=DType.FP32, device=DEVICE, seed=SEEDS[change])


def checked(declaration: Any, change: RowChange, **dims: int) -> RowCheck:
    declared: Op = declaration.complete("s.py")
    case, execution = case_of(declared, change, **dims), Execution(torch.enable_grad)
    ending, results = execution.run(declared, case)
    run = Run(case=case, engine="virtual", ending=ending, results=results)

    def trial(_: Arrangement, work: Any) -> tuple[Ending, RowComparison, tuple[Launch, ...]]:
        return *work(), ()

    return check_rows(execution, declared, run, trial)


@pytest.mark.parametrize("change", RowChange)
def test_every_change_keeps_the_values_of_its_rows(change: RowChange) -> None:
    declared = scaled.complete("s.py")
    case = case_of(declared, change, T=12, D=3)
    _, _, planned = arrangements(declared, case)
    arrangement = planned[-1]
    assert arrangement.change is change
    before, after = make_inputs(declared, case)["x"], arrangement.inputs(declared, arrangement.case)["x"]
    assert before is not None
    assert after is not None
    kept_before, kept_after = CarriedRows.of(arrangement, {0: "T"}).kept(before, after)
    assert len(kept_before) == arrangement.rows > 0
    assert torch.equal(kept_before, kept_after)
    if change is not RowChange.PART:
        assert not torch.equal(before, after)


@pytest.mark.parametrize("change", RowChange)
def test_packed_sequences_move_with_their_tokens_and_states(change: RowChange) -> None:
    check = checked(shifted, change, T=20, N=4, D=3)
    assert check.is_packed
    assert change in {trial.change for trial in check.trials}
    for trial in check.trials:
        assert isinstance(trial.ending, Completed), trial.ending
        assert set(trial.compared) == {"y0", "y1", "d:x", "d:state"}
        assert trial.differences == ()


@pytest.mark.parametrize("change", RowChange)
def test_tokens_and_sequences_of_equal_number_are_told_apart(change: RowChange) -> None:
    checks = [checked(summed, change, T=count, N=count) for count in range(2, 13)]
    assert [check.trials for check in checks if any(trial.differences for trial in check.trials)] == []
    assert {name for check in checks for trial in check.trials for name in trial.compared} >= {"y0", "y1"}


def test_outputs_without_rows_are_left_out_with_their_gradients() -> None:
    (trial,) = checked(scaled, RowChange.PART, T=12, D=12).trials
    assert trial.compared == ("y0",)


@pytest.mark.parametrize("change", [RowChange.PART, RowChange.OTHER_VALUES, RowChange.PADDED])
def test_rows_that_mix_differ_beyond_rounding(change: RowChange) -> None:
    trial = checked(centred, change, T=30, D=4).trials[-1]
    assert trial.change is change
    worst = {difference.name: difference for difference in trial.differences}
    assert worst["y"].ratio > 1
    assert worst["y"].value != worst["y"].other


def test_a_rounding_that_follows_the_rows_is_found_at_its_index() -> None:
    check = checked(rounded_by_rows, RowChange.PADDED, T=12, D=4)
    part = check.trials[0]
    assert part.change is RowChange.PART
    assert part.dims["T"] <= 4
    (y,) = (difference for difference in part.differences if difference.name == "y")
    assert 0 < y.ratio <= 1
    declared = rounded_by_rows.complete("s.py")
    inputs = make_inputs(declared, case_of(declared, RowChange.PADDED, T=12, D=4))
    x, w = inputs["x"], inputs["w"]
    assert x is not None
    assert w is not None
    exact = (x * w)[y.index].item()
    assert y.other == pytest.approx(exact)
    assert y.value == pytest.approx(exact)


def test_one_row_is_compared_with_more_behind_it() -> None:
    (trial,) = checked(scaled, RowChange.PART, T=1, D=3).trials
    assert trial.change is RowChange.PADDED
    assert trial.dims["T"] > 1


def test_layouts_of_the_case_stay() -> None:
    declared = scaled.complete("s.py")
    case = Case(op=declared.id, dims={"T": 9, "D": 3}, dtype=DType.FP32, device=DEVICE, layouts={"x": Layout.STRIDED})
    _, _, (part, *_) = arrangements(declared, case)
    x = part.inputs(declared, part.case)["x"]
    assert x is not None
    assert x.stride() == (8, 1)
    assert x.requires_grad


def test_no_trial_is_made_where_no_other_number_is_legal() -> None:
    @op(dims={"T": Dim(low=5, high=5)}, inputs={"x": tensor("T")}, independent=("T",))
    def fixed(x: Tensor) -> Tensor:
        return x

    fixed.reference(lambda x: x)
    declared = fixed.complete("s.py")
    assert arrangements(declared, case_of(declared, RowChange.PERMUTED, T=5)) == ("T", False, ())


def test_sums_of_torch_are_noted() -> None:
    @op(**ROWS, independent=("T",))
    def product(x: Tensor, w: Tensor) -> Tensor:
        return x @ w[:, None] + x.sum(-1, keepdim=True)

    product.reference(lambda x, w: x @ w[:, None] + x.sum(-1, keepdim=True))
    (trial,) = checked(product, RowChange.PART, T=12, D=3).trials
    assert {"aten.mm", "aten.sum"} <= set(trial.torch_sums)


def test_axes_are_those_whose_extent_follows_the_rows() -> None:
    declared = scaled.complete("s.py")
    _, _, (part, *_) = arrangements(declared, case_of(declared, RowChange.PART, T=12, D=3))
    rows = part.case.dims["T"]
    assert part.axes_of_output((12, 3), (rows, 3)) == {0: "T"}
    assert part.axes_of_output((12, 12), (12, 12)) == {}
    assert part.axes_of_output((24, 3), (2 * rows, 3)) is None
