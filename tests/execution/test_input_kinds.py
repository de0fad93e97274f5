"""Integers, boundaries, sizes and tensors that a suite makes, as callers of kernels pass them."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from harness.errors import SuiteError
from harness.execution.execution import Execution
from harness.execution.inputs import make_inputs, without_undefined_cells
from harness.execution.integer_inputs import draw_integers
from harness.execution.poison import FreshMemory
from harness.model.case import Case, DType, Layout, Scale, ValueDistribution
from harness.model.input_spec import Draw, Input, Integers
from harness.model.op import Dim, Op
from harness.model.run import Completed
from harness.suite import built, integers, segments, sizes, tensor
from tests.execution.ops_for_tests import DEVICE

SEEDS = range(60)


def op_of(inputs: dict[str, Input], call: Any = None, **more: Any) -> Op:
    dims = {"T": Dim(low=0, high=1 << 20), "D": Dim(low=0, high=1 << 20)}
    return Op(name="op", suite="s.py", call=call, reference=call, dims=dims, inputs=inputs, **more)


def case(T: int = 64, D: int = 4, seed: int = 0) -> Case:  # noqa: N803 - names of dims
    return Case(op="s.py:op", dims={"T": T, "D": D}, dtype=DType.FP32, device=DEVICE, seed=seed)


def present(op: Op, seed: int = 0) -> dict[str, torch.Tensor]:
    return {name: value for name, value in make_inputs(op, case(seed=seed)).items() if value is not None}


def drawn(declared: Input, T: int = 64, D: int = 4, seed: int = 0) -> torch.Tensor:  # noqa: N803 - names of dims
    value = make_inputs(op_of({"value": declared}), case(T, D, seed))["value"]
    assert value is not None
    return value


def test_some_integers_are_at_edges_of_tiles() -> None:
    labels = Integers(shape=("T",), low=0, high=140_000)
    made = torch.cat([drawn(labels, T=200, seed=seed) for seed in range(40)])
    edge = torch.tensor([65_536, 65_535, 131_072, 131_071])
    assert all((made == one).sum() >= 2 for one in edge)
    assert torch.isin(made, edge).float().mean() < 0.1
    assert (int(made.min()) >= 0, int(made.max()) < 140_000) == (True, True)


def test_integers_stay_in_range_except_ignored_ones() -> None:
    labels = Integers(shape=("T",), high="D", ignore=-100)
    shares: set[float] = set()
    for seed in range(40):
        made = drawn(labels, T=64, D=7, seed=seed)
        kept = made[made != -100]
        assert ((kept >= 0) & (kept < 7)).all()
        shares.add(len(kept) / 64)
    assert {0.0, 1.0} < shares
    offsets = drawn(Integers(shape=("T",), low="-T", high="T+1", dtype="int32"), T=64)
    assert offsets.dtype is torch.int32
    assert int(offsets.min()) < 0 < int(offsets.max())


def test_segments_rise_from_zero_to_the_total_and_may_be_uneven() -> None:
    longest: list[int] = []
    for seed in range(20):
        bounds = drawn(segments("T", "D"), T=200, D=5, seed=seed)
        assert (bounds[0], bounds[-1], len(bounds)) == (0, 200, 6)
        assert int(bounds.diff().min()) >= 1
        longest.append(int(bounds.diff().max()))
    assert max(longest) > 150
    assert min(longest) < 120
    assert drawn(segments("T", "D"), T=3, D=8).tolist() == [0, 1, 2, 3]


def test_sequences_are_empty_only_if_the_op_accepts_that() -> None:
    may = segments("T", "D", may_be_empty=True)
    boundaries = [drawn(may, T=40, D=8, seed=seed) for seed in range(40)]
    for bounds in boundaries:
        assert (bounds[0], bounds[-1], len(bounds)) == (0, 40, 9)
        assert int(bounds.diff().min()) >= 0
    empty = [bounds for bounds in boundaries if int(bounds.diff().min()) == 0]
    assert 8 < len(empty) < 32
    assert any(bounds[1] == 0 for bounds in empty)
    assert any(bounds[-2] == 40 for bounds in empty)


def test_the_first_and_the_last_legal_integer_are_nearly_always_drawn() -> None:
    both = [{0, 99} <= set(drawn(integers("T", high=100), seed=seed).tolist()) for seed in SEEDS]
    assert sum(both) > 40


def test_masks_are_random_equal_all_but_one_a_block_or_alternating() -> None:
    masks = [drawn(integers("T", high=2, dtype="bool"), seed=seed) for seed in range(200)]
    counts = [int(mask.sum()) for mask in masks]
    changes = [int((mask[1:] != mask[:-1]).sum()) for mask in masks]
    assert {0, 64, 1, 63} < set(counts)
    assert any(count == 2 and 2 < total < 62 for count, total in zip(changes, counts, strict=True))
    assert 63 in changes


def test_the_largest_index_is_always_in_an_oversized_case() -> None:
    op = op_of({"at": integers(1, high="T", dtype="int32"), "many": integers("D", high="T", distinct=True)})
    for seed in range(8):
        made = make_inputs(op, replace(case(T=1 << 20, seed=seed), scale=Scale.OVERSIZED))
        assert [int(value.max()) for value in made.values() if value is not None] == [(1 << 20) - 1] * 2


def test_integers_of_an_oversized_case_keep_their_order_and_differ() -> None:
    slots_kind = integers("D", high="T", distinct=True)
    kinds: dict[str, Input] = {"slots": slots_kind, "bounds": integers("D", high="T", ascending=True)}
    for seed in range(8):
        made = make_inputs(op_of(kinds), replace(case(T=1 << 20, D=9, seed=seed), scale=Scale.OVERSIZED))
        slots, bounds = (value for value in made.values() if value is not None)
        assert len(slots.unique()) == 9
        assert bool((bounds.diff() >= 0).all())
        assert [int(slots.max()), int(bounds.max())] == [(1 << 20) - 1] * 2


@pytest.mark.parametrize("distinct", [True, "rows"])
def test_the_largest_of_distinct_integers_is_first_in_an_oversized_case(distinct: Any) -> None:
    declared = integers("D", 3, high="T", distinct=distinct)
    for seed in range(8):
        value = draw_integers(
            declared, {"T": 64, "D": 5}, torch.Generator().manual_seed(seed), is_sparse=False, is_oversized=True
        )
        assert int(value[0, 0]) == 63
        assert value[0].unique().numel() == 3


def test_distinct_integers_never_repeat_and_include_the_last_one() -> None:
    for seed in SEEDS:
        slots = drawn(integers("T", high=100, distinct=True), seed=seed)
        assert len(slots.unique()) == 64
        assert int(slots.max()) == 99
        experts = drawn(integers("T", "D", high=6, distinct="rows"), seed=seed)
        assert all(len(row.unique()) == 4 and int(row.max()) == 5 for row in experts)
    assert len(drawn(integers("T", high=10, distinct=True)).unique()) == 10


def test_rows_of_ascending_integers_are_sorted() -> None:
    for seed in SEEDS:
        rows = drawn(integers("T", "D", high=100, ascending=True), seed=seed)
        assert bool((rows.diff() >= 0).all())


def test_pads_are_scattered_or_at_an_end_of_each_row() -> None:
    def places(pads: torch.Tensor) -> set[str]:
        is_begin = bool((pads[:, 1:] <= pads[:, :-1]).all())
        is_end = bool((pads[:, 1:] >= pads[:, :-1]).all())
        return {"all" if bool(pads.all()) else "none" if not bool(pads.any()) else f"{is_begin} {is_end}"}

    slots = integers("T", "D", high="T", ignore="T", distinct=True)
    kinds = [places(drawn(slots, T=16, D=9, seed=seed) == 16) for seed in SEEDS]
    assert set().union(*kinds) == {"all", "none", "True False", "False True", "False False"}


def test_a_tail_of_tokens_may_follow_the_last_sequence() -> None:
    last = {int(drawn(segments("T", "D", tail=True), seed=seed)[-1]) for seed in SEEDS}
    assert 64 in last
    assert len(last) > 10
    assert all(4 <= end <= 64 for end in last)
    assert drawn(segments("T", "D", tail=True), T=1, D=1, seed=3)[0] == 0


def test_sizes_of_groups_share_a_total() -> None:
    exact = [drawn(sizes("D", "T"), seed=seed) for seed in SEEDS]
    assert {int(groups.sum()) for groups in exact} == {64}
    assert any(int(groups.max()) == 64 for groups in exact)
    assert any(int(groups.min()) == 16 for groups in exact)
    sums = {int(drawn(sizes("D", "T", surplus=True), seed=seed).sum()) for seed in SEEDS}
    assert 64 in sums
    assert min(sums) < 16
    assert drawn(sizes("D", "T"), T=7, D=0).tolist() == []


def positions(lengths: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return (torch.rand(len(lengths), generator=generator) * lengths).long()


def test_a_suite_makes_an_input_from_inputs_before_it() -> None:
    op = op_of({"lengths": integers("T", low=1, high=9), "at": built("T", by=positions, dtype="int64")})
    made, again, other = (present(op, seed) for seed in (3, 3, 4))
    assert bool((made["at"] < made["lengths"]).all())
    assert all(torch.equal(value, again[name]) for name, value in made.items())
    assert not torch.equal(made["at"], other["at"])


def test_a_function_of_an_input_returns_what_it_declares() -> None:
    op = op_of({"lengths": integers("T", high=9), "at": built("D", by=positions, dtype="int64")})
    with pytest.raises(SuiteError, match=r"the input 'at' returns \(64,\) of torch.int64, not \(4,\) of torch.int64"):
        make_inputs(op, case())


def owned(pages: torch.Tensor, T: int) -> torch.Tensor:  # noqa: N803 - the name of a dim
    return torch.isin(torch.arange(T), pages)[:, None]


def test_cells_that_must_not_be_read_hold_nan_and_definitions_get_zeros() -> None:
    op = op_of({"pages": integers("D", high="T", distinct=True), "cache": tensor("T", "D", defined=owned)})
    made = present(op)
    pages, cache = made["pages"], made["cache"]
    assert int(cache.isnan().all(-1).sum()) == 60
    assert not bool(cache[pages].isnan().any())
    seen = without_undefined_cells(op, case(), {"pages": pages, "cache": cache})["cache"]
    assert int((seen == 0).all(-1).sum()) == 60
    assert torch.equal(seen[pages], cache[pages])


def test_a_mask_of_cells_is_told_of_inputs_that_are_missing() -> None:
    def first_row(length: torch.Tensor | None, T: int) -> torch.Tensor:  # noqa: N803 - the name of a dim
        return (torch.arange(T) < (T if length is None else 1))[:, None]

    length = integers(1, high=2, optional=True)
    op = op_of({"length": length, "x": tensor("T", "D", defined=first_row)})
    x = torch.ones(64, 4)
    assert torch.equal(without_undefined_cells(op, case(), {"x": x})["x"], x)
    assert int(without_undefined_cells(op, case(), {"length": x, "x": x})["x"].sum()) == 4


def gathered(cache: torch.Tensor, pages: torch.Tensor) -> torch.Tensor:
    return cache[pages]


def summed(cache: torch.Tensor, pages: torch.Tensor) -> torch.Tensor:
    return cache.sum() * 0 + cache[pages]


@pytest.mark.parametrize(("call", "nonfinite"), [(gathered, 0), (summed, 16)])
def test_a_read_of_an_unowned_page_shows_in_the_result(call: Any, nonfinite: int) -> None:
    pages = integers("D", high="T", distinct=True)
    inputs: dict[str, Input] = {"pages": pages, "cache": tensor("T", "D", defined=owned)}
    op = replace(op_of(inputs, gathered), call=call)
    ending, results = Execution(torch.enable_grad).run(op, case())
    assert isinstance(ending, Completed), ending
    assert [result.nonfinite for result in results if result.name == "y"] == [nonfinite]


def half_written(x: torch.Tensor) -> torch.Tensor:
    with FreshMemory():
        y = torch.empty_like(x)
    y[: len(x) // 2] = x[: len(x) // 2]
    return y


@pytest.mark.parametrize("columns", [1, 4])
def test_cells_that_an_op_leaves_undefined_are_not_judged(columns: int) -> None:
    def first_half(x: torch.Tensor) -> torch.Tensor:
        return len(x) // 2 > torch.arange(len(x)).expand(columns, -1).T

    op = replace(op_of({"x": tensor("T", "D")}, lambda x: x, defined=first_half), call=half_written)
    _, judged = Execution(torch.enable_grad).run(op, case())
    _, whole = Execution(torch.enable_grad).run(replace(op, defined=None), case())
    assert [(result.nonfinite, result.unwritten) for result in judged] == [(0, 0)] * 2
    assert (whole[0].nonfinite, whole[0].unwritten) == (128, 128)


def test_results_of_eight_bits_may_be_partly_undefined() -> None:
    op = op_of({"x": tensor("T", "D")}, lambda x: x, defined=lambda x: (torch.arange(len(x)) > 0)[:, None])
    ending, results = Execution(torch.enable_grad).run(op, replace(case(), dtype=DType.FP8_E4M3))
    assert isinstance(ending, Completed), ending
    assert results[0].nonfinite == 0


def test_masks_of_results_broadcast_where_numbers_leave_the_range() -> None:
    op = op_of({"x": tensor("T", "D")}, lambda x: x * x, defined=lambda x: (torch.arange(len(x)) > 0)[:, None])
    huge = replace(case(), dtype=DType.FP16, values=ValueDistribution.HUGE)
    ending, results = Execution(torch.enable_grad).run(op, huge)
    assert isinstance(ending, Completed), ending
    assert results[0].name == "y"


@pytest.mark.parametrize(("draw", "values"), [(Draw.LOGITS, None), (Draw.MASK, {0.0, -torch.inf})])
def test_masks_and_logits_have_rows_without_any_finite_number(draw: Draw, values: set[float] | None) -> None:
    rows = [drawn(tensor("T", "D", draw=draw), seed=seed) for seed in range(12)]
    infinite = [int(row.isinf().all(-1).sum()) for row in rows]
    assert 0 in infinite
    assert max(infinite) > 2
    assert values is None or values == set(torch.cat(rows).unique().tolist())


def test_one_hot_rows_and_powers_of_two_are_what_they_say() -> None:
    one_hot = drawn(tensor("T", "D", draw=Draw.ONE_HOT))
    assert torch.equal(one_hot.sum(-1), torch.ones(64))
    exponents = drawn(tensor("T", "D", draw=Draw.POWERS)).detach().log2()
    assert torch.equal(exponents, exponents.round())
    assert float(exponents.max() - exponents.min()) > 8


def test_declared_axes_broadcast_in_every_combination() -> None:
    mask = tensor("T", "D", 3, broadcasts=("T", "D"))
    broadcast = {"value": Layout.BROADCAST}
    made = [
        make_inputs(op_of({"value": mask}), replace(case(seed=seed), layouts=broadcast))["value"] for seed in range(20)
    ]
    assert {tuple(value.shape) for value in made if value is not None} == {(1, 4, 3), (64, 1, 3), (1, 1, 3)}
    assert all(value is not None and value.is_contiguous() for value in made)
    assert drawn(mask).shape == (64, 4, 3)


@pytest.mark.parametrize("values", [ValueDistribution.NORMAL, ValueDistribution.NAN_TAINTED])
def test_gradients_of_broadcast_inputs_are_compared(values: ValueDistribution) -> None:
    inputs: dict[str, Input] = {"x": tensor("T", "D"), "bias": tensor("T", "D", broadcasts=("T",))}

    def add(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return x * bias

    one = replace(case(T=9), layouts={"bias": Layout.BROADCAST}, values=values)
    ending, results = Execution(torch.enable_grad).run(op_of(inputs, add, apart=("T",)), one)
    assert isinstance(ending, Completed)
    shapes = {result.name: (result.shape, result.whole.ratio <= 1) for result in results}
    assert shapes == {"y": ((9, 4), True), "d:x": ((9, 4), True), "d:bias": ((1, 4), True)}
