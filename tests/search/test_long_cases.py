"""Long cases: one dim exceeds the limits of 16 bits and of a grid, the others are small."""

from dataclasses import replace
from math import prod

import pytest

from harness.model.case import FAR_FROM_ONE, Case, Scale, ValueDistribution
from harness.model.input_spec import Tensor
from harness.model.op import Dim, Op
from harness.search import moves
from harness.search.campaign_statistics import Trial
from harness.search.launch_feedback import LaunchFeedback
from harness.search.long_cases import (
    LENGTHS,
    MAX_ELEMENTS,
    MOST_ELEMENTS,
    ONE_IN,
    SHORTEST,
    early_long_cases,
    long_cases,
    long_dims,
    why_never_long,
)
from harness.search.oversized import INDEX_LIMIT
from harness.search.sort_key import sort_key
from harness.search.strategies import Batch
from harness.search.variants import shape_variants, value_variants
from harness.suite import groups, tokens
from tests.search.fakes import DEVICE, OP, SIMPLEST, with_dims
from tests.search.shrinks import shrink
from tests.search.test_oversized import drawn_from
from tests.search.test_shrinking import LIMITS, SIGNATURE

GROWS = replace(OP, dims={**OP.dims, "T": tokens(2048)})
VOCABULARY = replace(
    OP,
    dims={"T": tokens(2048), "V": Dim(low=1, high=140_000)},
    inputs={"x": Tensor(shape=("T", "V"))},
    where=lambda at: at["V"] % 2 == 0 or at["T"] > 1,
)
HOME = DEVICE.sm_count


def op_with(dim: Dim) -> Op:
    return replace(OP, dims={**OP.dims, "T": dim})


def drawn(op: Op, batches: int) -> list[Case]:
    found: list[Case] = []
    for seed in range(batches):
        found += Batch(op=op, device=DEVICE, feedback=LaunchFeedback(), seed=seed, size=48).draw()
    return found


@pytest.mark.parametrize(
    ("dim", "long"),
    [
        (tokens(256), ("T",)),
        (tokens(256, grows=False), ()),
        (tokens(256, long=0), ()),
        (tokens(256, long=32_766), ()),
        (tokens(256, grows=False, long=70_000), ("T",)),
        (Dim(low=1, high=64, grows=True, largest=5000), ()),
        (Dim(low=1, high=70_000), ("T",)),
        (Dim(low=1, high=70_000, long=0), ()),
        (Dim(low=1, high=70_000, choices=(1, 70_000)), ()),
        (groups(1, 4, grows=True), ("T",)),
    ],
)
def test_dims_that_grow_or_reach_beyond_16_bits_may_be_long(dim: Dim, long: tuple[str, ...]) -> None:
    assert long_dims(op_with(dim)) == long


def test_a_long_case_is_long_in_one_dim_and_bounded_in_elements() -> None:
    usual = replace(with_dims(T=7, D=900, G=2), values=ValueDistribution.LARGE)
    found = drawn_from(long_cases(GROWS, usual), 200)
    assert {case.scale for case in found} == {Scale.LONG}
    for case in found:
        assert case.dims["T"] >= SHORTEST
        assert case.dims["D"] <= 64
        assert prod(case.dims.values()) <= MAX_ELEMENTS
        assert GROWS.allows(case)
        assert not GROWS.allows(replace(case, scale=Scale.USUAL))
        assert replace(case, dims=usual.dims, scale=Scale.USUAL) == usual
    assert {case.dims["T"] for case in found} == {*LENGTHS}
    assert len({case.dims["D"] for case in found}) > 6


def test_a_declared_limit_is_kept() -> None:
    found = drawn_from(long_cases(op_with(tokens(256, long=40_000)), SIMPLEST), 60)
    assert {case.dims["T"] for case in found} == {32_767, 32_768, 32_769}


def test_each_dim_that_may_be_long_is_drawn_where_it_is_legal() -> None:
    usual = Case(op=VOCABULARY.id, dims={"T": 1, "V": 2}, dtype=SIMPLEST.dtype, device=DEVICE)
    found = drawn_from(long_cases(VOCABULARY, usual), 100)
    long = [case for case in found if case.scale is Scale.LONG]
    assert {max(case.dims, key=lambda name: case.dims[name]) for case in long} == {"T", "V"}
    assert all(map(VOCABULARY.allows, found))
    assert usual in found  # where `where` accepts none of the sizes


@pytest.mark.nightly
def test_few_drawn_cases_are_long() -> None:
    found = drawn(GROWS, 40)
    long = sum(case.scale is Scale.LONG for case in found)
    assert len(found) / (3 * ONE_IN) < long < len(found) * 3 / ONE_IN
    assert not any(case.scale is Scale.LONG for case in drawn(OP, 8))


def test_only_cases_that_can_be_exact_have_numbers_far_from_one() -> None:
    cases = drawn(GROWS, 10)
    far = {case.scale for case in cases if case.values in FAR_FROM_ONE}
    assert far == {Scale.USUAL} < {case.scale for case in cases}


def test_an_op_has_an_early_case_for_each_long_dim() -> None:
    usual = Case(op=VOCABULARY.id, dims={"T": 1, "V": 2}, dtype=SIMPLEST.dtype, device=DEVICE)
    assert [case.dims for case in early_long_cases(VOCABULARY, usual)] == [
        {"T": 65_537, "V": 8},
        {"T": 8, "V": 65_537},
    ]
    assert list(early_long_cases(OP, SIMPLEST)) == []


def test_a_long_case_lies_between_usual_and_oversized_ones() -> None:
    usual = with_dims(T=2048, D=1024)
    long = replace(with_dims(T=SHORTEST), scale=Scale.LONG)
    oversized = replace(with_dims(T=INDEX_LIMIT), scale=Scale.OVERSIZED)
    keys = [sort_key(GROWS, case, HOME) for case in (usual, long, oversized)]
    assert keys == sorted(keys)
    assert list(moves.scale(GROWS, long)) == []
    assert list(moves.scale(GROWS, replace(usual, scale=Scale.LONG))) == [usual]


def test_a_failure_of_long_dims_shrinks_to_the_shortest() -> None:
    case = replace(with_dims(T=2**20 + 1, D=3), scale=Scale.LONG)
    trial = Trial(number=0, op=GROWS, case=case, batch=None, home_sm_count=HOME)
    result = shrink(trial, SIGNATURE, lambda case: case.dims["T"] > SHORTEST, LIMITS)
    assert (result.case, result.complete) == (replace(with_dims(T=SHORTEST + 1), scale=Scale.LONG), True)


def test_a_failure_that_needs_no_long_dim_shrinks_to_usual_size() -> None:
    case = replace(with_dims(T=2**20 + 1, D=3), scale=Scale.LONG)
    trial = Trial(number=0, op=GROWS, case=case, batch=None, home_sm_count=HOME)
    assert shrink(trial, SIGNATURE, lambda case: case.dims["T"] > 36, LIMITS).case == with_dims(T=37)


def test_a_long_case_has_no_variants() -> None:
    long = replace(with_dims(T=SHORTEST), scale=Scale.LONG)
    assert [*shape_variants(GROWS, long, 16), *value_variants(GROWS, long, 16)] == []


def test_wide_rows_do_not_exclude_long_cases() -> None:
    wide = replace(OP, dims={"T": tokens(64)}, inputs={"x": Tensor(shape=("T", 256))})
    usual = Case(op=wide.id, dims={"T": 3}, dtype=SIMPLEST.dtype, device=DEVICE)
    found = [case for case in drawn_from(long_cases(wide, usual), 40) if case.scale is Scale.LONG]
    assert len(found) > 20
    assert all(MAX_ELEMENTS < 256 * case.dims["T"] <= MOST_ELEMENTS for case in found)
    assert [case.dims["T"] for case in early_long_cases(wide, usual)] == [65_536]


def test_a_long_case_takes_smaller_choices_where_the_drawn_are_too_large() -> None:
    chosen = replace(
        OP, dims={"T": tokens(64), "D": groups(1024, 64)}, inputs={"x": Tensor(shape=("T", "D"))}, where=None
    )
    usual = Case(op=chosen.id, dims={"T": 3, "D": 1024}, dtype=SIMPLEST.dtype, device=DEVICE)
    assert {case.dims["D"] for case in drawn_from(long_cases(chosen, usual), 20)} == {64}


def test_lengths_that_where_allows_are_found() -> None:
    even = replace(GROWS, where=lambda at: at["T"] % 64 == 0)
    assert [case.dims["T"] for case in early_long_cases(even, with_dims(T=64))] == [65_536]


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (GROWS, ""),
        (OP, "no dim may exceed 32,766"),
        (replace(GROWS, inputs={"x": Tensor(shape=("T", 1024))}), "32,767 rows have more than 16,777,216 elements"),
        (replace(GROWS, where=lambda at: at["T"] % 3 == 0), ""),
        (replace(GROWS, where=lambda at: at["T"] < 2048), "`where` allows none that was tried"),
    ],
)
def test_an_op_without_long_cases_says_why(op: Op, why: str) -> None:
    assert why_never_long(op, [SIMPLEST]) == why


def test_a_dim_with_choices_that_grows_shrinks_through_them() -> None:
    op = replace(OP, dims={**OP.dims, "T": groups(1, 4, grows=True)})
    long = replace(with_dims(T=65_537), scale=Scale.LONG)
    assert op.allows(long)
    assert not op.allows(replace(with_dims(T=3), scale=Scale.LONG))
    trial = Trial(number=0, op=op, case=long, batch=None, home_sm_count=HOME)
    assert shrink(trial, SIGNATURE, lambda case: case.dims["T"] > 40_000, LIMITS).case.dims["T"] == 40_001
    assert shrink(trial, SIGNATURE, lambda case: case.dims["T"] > 3, LIMITS).case == with_dims(T=4)
