"""Drawn cases are legal, equal for equal seeds, and close to where kernels break."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import pytest

from harness.errors import SuiteError
from harness.execution.paired_run_policy import is_sampled
from harness.model.case import ONLY_IN_CHECKS, RARE_LAYOUTS, USUAL_DTYPES, Case, Layout, ValueDistribution
from harness.model.input_spec import Contiguity, Tensor
from harness.model.op import Dim
from harness.search.campaign_plan import EXAMPLES
from harness.search.launch_feedback import LaunchFeedback
from harness.search.sort_key import layouts_of
from harness.search.strategies import RARE_ELEMENTS, USUAL_ELEMENTS, Batch, scouts
from harness.suite import integers, segments, sizes, tokens, width
from tests.search.fakes import DEVICE, KERNEL, OP, SIMPLEST

FEEDBACK = LaunchFeedback(tile_sizes=frozenset({32, 64}), configs={KERNEL: 6})
BATCH = Batch(op=OP, device=DEVICE, feedback=FEEDBACK, seed=9, size=400)


@pytest.fixture(scope="module")
def drawn() -> tuple[Case, ...]:
    return BATCH.draw()


def test_the_same_seed_draws_the_same_cases(drawn: tuple[Case, ...]) -> None:
    assert BATCH.draw() == drawn


def test_another_seed_draws_other_cases(drawn: tuple[Case, ...]) -> None:
    others = replace(BATCH, seed=7).draw()
    assert len({case.digest for case in others} & {case.digest for case in drawn}) < len(drawn) / 10


def test_every_case_is_legal(drawn: tuple[Case, ...]) -> None:
    assert [case for case in drawn if not OP.allows(case)] == []


def test_default_settings_are_left_out_of_a_case(drawn: tuple[Case, ...]) -> None:
    for case in drawn:
        assert 0 not in case.configs.values()
        assert Layout.CONTIGUOUS not in case.layouts.values()
        assert not set(case.layouts) & set(case.absent)


def test_only_gradients_are_expanded(drawn: tuple[Case, ...]) -> None:
    assert {name for case in drawn for name, layout in case.layouts.items() if layout is Layout.EXPANDED} == {"grad"}


def test_every_value_of_every_axis_is_drawn(drawn: tuple[Case, ...]) -> None:
    assert {case.dtype for case in drawn} == set(USUAL_DTYPES)
    # OP has no independent axes, and only checks have negative numbers.
    left_out = {ValueDistribution.NAN_TAINTED, *ONLY_IN_CHECKS}
    assert {case.values for case in drawn} == set(ValueDistribution) - left_out
    assert {case.absent for case in drawn} == {(), ("residual",), ("weight",), ("residual", "weight")}
    assert {case.configs.get(KERNEL, 0) for case in drawn} == set(range(6))
    assert layouts_in(drawn) == set(Layout) - {
        Layout.CONTIGUOUS,
        Layout.TRANSPOSED,
        Layout.BATCH_STRIDED,
        Layout.PERMUTED,
        Layout.BROADCAST,
    }


def layouts_in(drawn: Sequence[Case]) -> set[Layout]:
    return {layout for case in drawn for layout in case.layouts.values()}


def test_tensors_of_three_dims_have_more_layouts() -> None:
    op = replace(OP, inputs={**OP.inputs, "x": Tensor(shape=("G", "T", "D"))})
    drawn = replace(BATCH, op=op).draw()
    assert layouts_in(drawn) == set(Layout) - {Layout.CONTIGUOUS, Layout.BROADCAST}
    for layout in (Layout.BATCH_STRIDED, Layout.TRANSPOSED):
        assert {name for case in drawn for name, given in case.layouts.items() if given is layout} == {"x", "grad"}


def test_inputs_that_may_broadcast_often_do() -> None:
    at = integers("T", "D", high=4, broadcasts=("T",), contiguous=True)
    drawn = replace(BATCH, op=replace(OP, inputs={**OP.inputs, "at": at})).draw()
    broadcast = [case for case in drawn if case.layout_of("at") is Layout.BROADCAST]
    assert len(drawn) / 10 < len(broadcast) < len(drawn) / 2
    assert {name for case in drawn for name, given in case.layouts.items() if given is Layout.BROADCAST} == {"at"}


def test_empty_tensors_are_drawn_where_they_are_legal() -> None:
    op = replace(OP, dims={**OP.dims, "T": tokens(64, low=0), "D": width(64, low=0)})
    empty = [case for case in replace(BATCH, op=op).draw() if 0 in case.dims.values()]
    assert {name for case in empty for name, size in case.dims.items() if not size} == {"T", "D"}
    assert len(empty) > 15


def test_one_case_in_four_has_a_rare_layout_and_of_one_input() -> None:
    op = replace(OP, inputs={**OP.inputs, "at": integers("T", high=4), "rows": integers("T", high=4, contiguous=True)})
    rare = [
        [name for name, layout in case.layouts.items() if layout in RARE_LAYOUTS or name in {"at", "rows"}]
        for case in replace(BATCH, op=op).draw()
    ]
    assert {len(names) for names in rare} == {0, 1}
    assert 30 < sum(map(len, rare)) < 140
    assert {name for names in rare for name in names} == {*op.inputs, "grad"}


def test_inputs_whose_equal_elements_are_illegal_are_not_repeated() -> None:
    slots, labels = integers("T", high="T", distinct=True), integers("T", high="T")
    op = replace(OP, inputs={"slots": slots, "labels": labels, "cu": segments("T", "G"), "sizes": sizes("G", "T")})
    assert [name for name in op.inputs if Layout.REPEATED in layouts_of(op, name)] == ["labels"]


@pytest.mark.parametrize(("contiguous", "illegal"), [(True, RARE_LAYOUTS | {Layout.STRIDED}), ("rows", RARE_LAYOUTS)])
def test_layouts_follow_what_an_op_or_an_input_demands(contiguous: Contiguity, illegal: frozenset[Layout]) -> None:
    of_op = replace(OP, contiguous=contiguous)
    of_input = replace(OP, inputs={**OP.inputs, "x": replace(OP.inputs["x"], contiguous=contiguous)})
    assert not illegal & {*layouts_of(of_op, "x"), *layouts_of(of_op, "weight")}
    assert not illegal & {*layouts_of(of_input, "x")}
    assert illegal & {*layouts_of(of_input, "weight")}
    assert illegal & {*layouts_of(of_op, "grad")}


@pytest.mark.parametrize(
    ("what", "sizes"),
    [
        ("fewer rows than SMs", range(1, 188)),
        ("the SM count and its neighbours", (187, 188, 189)),
        ("multiples of the SM count and their neighbours", (375, 376, 377, 563, 564, 565)),
        ("a row more or less than whole tiles", (31, 33, 63, 65, 127, 129, 255, 257)),
        ("powers of two", (16, 32, 64, 128, 256, 512, 1024, 2048)),
        ("primes", (101, 127, 211, 257, 509, 1021)),
        ("one row", (1,)),
    ],
)
def test_sizes_are_drawn_from(what: str, sizes: range | tuple[int, ...], drawn: tuple[Case, ...]) -> None:
    assert {case.dims["T"] for case in drawn} & set(sizes), what


def test_a_dim_is_drawn_next_to_the_others(drawn: tuple[Case, ...]) -> None:
    grouped = [case.dims for case in drawn if case.dims["G"] > 1]
    assert any(abs(dims["T"] - dims["G"]) == 1 for dims in grouped)
    assert any(abs(dims["T"] - 188 * dims["G"]) <= 1 for dims in grouped)


def test_the_work_of_a_case_is_bounded(drawn: tuple[Case, ...]) -> None:
    elements = [prod(case.dims.values()) for case in drawn]
    assert max(elements) <= RARE_ELEMENTS
    assert sum(count > USUAL_ELEMENTS for count in elements) < len(elements) / 10


def test_about_one_case_in_ten_gets_paired_runs() -> None:
    batches = (replace(BATCH, seed=seed, size=EXAMPLES).draw() for seed in range(40))
    chosen = [is_sampled(case) for batch in batches for case in {case.digest: case for case in batch}.values()]
    assert 0.05 <= sum(chosen) / len(chosen) <= 0.15


def test_illegal_dims_are_never_drawn() -> None:
    op = replace(OP, where=lambda dims: dims["D"] % 2 == 0 and dims["T"] >= dims["G"])
    assert all(op.allows(case) for case in replace(BATCH, op=op).draw())


def test_an_op_without_legal_dims_is_an_error() -> None:
    op = replace(OP, where=lambda dims: dims["T"] > 5000)
    with pytest.raises(SuiteError, match=r"suites/fla/norm.py:layer_norm: `where` accepts none of the dims"):
        replace(BATCH, op=op, size=20).draw()


def test_scouts_have_all_optional_inputs_or_none() -> None:
    full = replace(SIMPLEST, dims={"T": 48, "D": 48, "G": 1}, absent=())
    assert scouts(OP, DEVICE) == (full, replace(full, absent=("residual", "weight")))


def test_scouts_keep_to_the_range_of_each_dim() -> None:
    op = replace(
        OP, dims={**OP.dims, "T": Dim(low=100, high=200), "D": Dim(low=1, high=8)}, inputs={"x": OP.inputs["x"]}
    )
    assert [case.dims for case in scouts(op, DEVICE)] == [{"T": 100, "D": 8, "G": 1}]


def test_scouts_are_legal_where_equal_dims_are_not() -> None:
    op = replace(OP, where=lambda at: at["D"] < at["T"], inputs={"x": OP.inputs["x"]})
    assert [case.dims for case in scouts(op, DEVICE)] == [{"T": 48, "D": 1, "G": 1}]
    assert scouts(replace(op, where=lambda at: at["T"] > 5000), DEVICE) == ()


def test_launch_feedback_joins_in_any_order() -> None:
    one = LaunchFeedback(tile_sizes=frozenset({16}), configs={"a": 3})
    other = LaunchFeedback(tile_sizes=frozenset({64}), configs={"b": 2, "a": 5})
    assert one | other == other | one == LaunchFeedback(tile_sizes=frozenset({16, 64}), configs={"a": 5, "b": 2})
