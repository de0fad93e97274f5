"""Oversized cases: a dim that may grow does so until 32 bits cannot count the elements."""

from dataclasses import replace
from math import prod

import hypothesis
import pytest
from hypothesis import strategies as st

from harness.model.case import Case, Layout, Scale, ValueDistribution
from harness.model.input_spec import Tensor
from harness.model.op import Dim, Op
from harness.search import moves
from harness.search.launch_feedback import LaunchFeedback
from harness.search.oversized import (
    INDEX_LIMIT,
    MAX_ELEMENTS,
    ONE_IN,
    growing_dim_sets,
    grown,
    oversized_cases,
    why_never_oversized,
)
from harness.search.sort_key import sort_key
from harness.search.strategies import ALL_HEALTH_CHECKS, Batch
from harness.suite import groups, integers, tokens
from tests.search.fakes import DEVICE, OP, SIMPLEST, with_dims

GROWS = replace(OP, dims={**OP.dims, "T": tokens(2048)})
"""`OP` with a T that may grow in oversized cases."""
SEQUENCES = replace(
    OP,
    dims={
        "B": Dim(low=1, high=6, grows=True, largest=65_535),
        "T": tokens(1024),
        "D": Dim(low=1, high=512, grows=True, largest=65_536),
    },
    inputs={"x": Tensor(shape=("B", "T", "D")), "state": Tensor(shape=("B", "D", 8), optional=True)},
)
"""Sequences, and a state of each."""


def drawn(op: Op, count: int) -> list[Case]:
    found: list[Case] = []
    for seed in range(count):
        found += Batch(op=op, device=DEVICE, feedback=LaunchFeedback(), seed=seed, size=48).draw()
    return found


def drawn_from(strategy: st.SearchStrategy[Case], count: int) -> list[Case]:
    found: list[Case] = []

    @hypothesis.seed(1)
    @hypothesis.settings(
        max_examples=count, phases=(hypothesis.Phase.generate,), database=None, suppress_health_check=ALL_HEALTH_CHECKS
    )
    @hypothesis.given(strategy)
    def visit(case: Case) -> None:
        found.append(case)

    visit()
    return found


def largest_tensor(op: Op, case: Case) -> int:
    return max(prod(declared.extents(case.dims)) for declared in op.inputs.values())


def test_an_oversized_case_has_elements_beyond_32_bits() -> None:
    usual = with_dims(T=7, D=40, G=2)
    found = drawn_from(
        oversized_cases(GROWS, replace(usual, layouts={"x": Layout.STRIDED}, values=ValueDistribution.LARGE)), 40
    )
    assert {case.scale for case in found} == {Scale.OVERSIZED}
    assert {case.dims["D"] for case in found} == {40, 1024}
    for case in found:
        assert INDEX_LIMIT * 33 // 32 < largest_tensor(GROWS, case) < 2 * INDEX_LIMIT
        assert (case.layouts, case.values) == ({}, ValueDistribution.NORMAL)
        assert GROWS.allows(case)
        assert not GROWS.allows(replace(case, scale=Scale.USUAL))


def test_a_case_is_unchanged_if_no_dim_may_grow() -> None:
    usual = with_dims(T=7, D=40)
    assert drawn_from(oversized_cases(OP, usual), 1) == [usual]
    assert not any(case.scale is Scale.OVERSIZED for case in drawn(OP, 8))


@pytest.mark.nightly
def test_few_drawn_cases_are_oversized() -> None:
    found = drawn(GROWS, 40)
    oversized = sum(case.scale is Scale.OVERSIZED for case in found)
    assert len(found) / (4 * ONE_IN) < oversized < len(found) * 4 / ONE_IN


def test_a_size_grows_no_further_than_needed() -> None:
    dims = {"T": 1, "D": 1000, "G": 1}
    rows = [Tensor(shape=("T", "G*D"))]
    assert grown(GROWS, dims, rows, ("T",), 1.0) == {**dims, "T": 2**31 // 1000 + 1}
    assert grown(GROWS, dims, [], ("T",), 1.0) is None


def test_if_one_dim_cannot_grow_enough_the_next_grows_too() -> None:
    dims = {"B": 1, "T": 3, "D": 100}
    rows = [Tensor(shape=("B", "T", "D"))]
    assert grown(SEQUENCES, dims, rows, ("B", "T"), 1.0) == {"B": 65_535, "T": 2**31 // (65_535 * 100) + 1, "D": 100}
    assert grown(SEQUENCES, dims, rows, ("B", "D"), 1.0) == {"B": 65_535, "T": 3, "D": 2**31 // (65_535 * 3) + 1}
    assert grown(SEQUENCES, dims, rows, ("D",), 1.0) is None


def test_states_grow_independently_of_tokens() -> None:
    assert growing_dim_sets(SEQUENCES) == (("B", "T", "D"), ("B", "D"))
    assert growing_dim_sets(GROWS) == (("T",),)
    assert growing_dim_sets(OP) == ()
    usual = Case(op=SEQUENCES.id, dims={"B": 2, "T": 700, "D": 9}, dtype=SIMPLEST.dtype, device=DEVICE)
    found = drawn_from(oversized_cases(SEQUENCES, replace(usual, absent=("state",))), 60)
    oversized = [case for case in found if is_oversized(case)]
    assert len(oversized) > 45
    states = [case for case in oversized if not case.absent]
    assert 5 < len(states) < 50
    for case in oversized:
        x, state = (prod(declared.extents(case.dims)) for declared in SEQUENCES.inputs.values())
        assert INDEX_LIMIT < (x if case.absent else state) < 2 * INDEX_LIMIT
        assert max(x, state) <= MAX_ELEMENTS
        assert SEQUENCES.allows(case)
        assert not SEQUENCES.allows(replace(case, dims={**case.dims, "B": 65_536}))
    assert {case.dims["T"] for case in states} == {1}


@pytest.mark.nightly
def test_each_set_of_growing_dims_is_drawn_equally_often() -> None:
    oversized, usual = (len([case for case in drawn(op, 40) if is_oversized(case)]) for op in (SEQUENCES, GROWS))
    assert 1.2 * usual < oversized < 4 * usual


def is_oversized(case: Case) -> bool:
    return case.scale is Scale.OVERSIZED


def test_a_case_of_usual_size_is_simpler_than_an_oversized_one() -> None:
    small = replace(SIMPLEST, scale=Scale.OVERSIZED)
    oversized = replace(small, dims={**SIMPLEST.dims, "T": 2**31})
    home = DEVICE.sm_count
    assert sort_key(GROWS, with_dims(T=2048, D=1024), home) < sort_key(GROWS, small, home)
    assert list(moves.scale(GROWS, small)) == [SIMPLEST]
    assert list(moves.scale(GROWS, oversized)) == []


def test_tokens_that_do_not_grow_keep_to_their_range() -> None:
    assert tokens(64, grows=False) == Dim(low=1, high=64, varies=True)


def test_a_single_row_of_numbers_and_integers_alone_may_be_oversized() -> None:
    row = replace(GROWS, inputs={"x": Tensor(shape=("T",))})
    slots = replace(GROWS, inputs={"slots": integers("T", "D", high=8)})
    assert growing_dim_sets(row) == growing_dim_sets(slots) == (("T",),)


def test_the_largest_choices_help_where_growing_dims_fall_short() -> None:
    heads = replace(
        OP,
        dims={"B": Dim(low=1, high=4, grows=True, largest=65_535), "H": groups(1, 64), "D": groups(64, 1024)},
        inputs={"x": Tensor(shape=("B", "H", "D"))},
    )
    usual = Case(op=heads.id, dims={"B": 2, "H": 1, "D": 64}, dtype=SIMPLEST.dtype, device=DEVICE)
    found = [case for case in drawn_from(oversized_cases(heads, usual), 20) if is_oversized(case)]
    assert found
    assert {(case.dims["H"], case.dims["D"]) for case in found} == {(64, 1024)}


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (GROWS, ""),
        (OP, "no dim grows"),
        (replace(GROWS, launches=False), "the op may run without a kernel"),
        (
            replace(GROWS, dims={**OP.dims, "T": Dim(low=1, high=64, grows=True, largest=1000)}),
            "no input with a dim that grows reaches 2^31 elements",
        ),
    ],
)
def test_an_op_without_oversized_cases_says_why(op: Op, why: str) -> None:
    assert why_never_oversized(op) == why
