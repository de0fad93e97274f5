"""Giant cases: one dim grows until 32 bits cannot count the elements, and only where its op lets it."""

from dataclasses import replace
from math import prod

import hypothesis
import pytest
from hypothesis import strategies as st

from harness.model.case import Case, Layout, Scale, ValueDistribution
from harness.model.input_spec import Tensor
from harness.model.op import Dim, Op
from harness.search import moves
from harness.search.launch_feedback import Hints
from harness.search.oversized import INDEX_LIMIT, ONE_IN, ROOM, giants, grown, ways
from harness.search.sort_key import plainness
from harness.search.strategies import ALL_HEALTH_CHECKS, Batch
from harness.suite import tokens
from tests.search.fakes import DEVICE, OP, PLAINEST, with_dims

pytestmark = pytest.mark.once

GROWS = replace(OP, dims={**OP.dims, "T": tokens(2048)})
"""As `OP`, but that T may be any in giant cases."""
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
        found += Batch(op=op, device=DEVICE, hints=Hints(), seed=seed, size=48).draw()
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


def test_a_giant_case_has_a_tensor_whose_last_rows_lie_beyond_32_bits() -> None:
    usual = with_dims(T=7, D=40, G=2)
    found = drawn_from(giants(GROWS, replace(usual, layouts={"x": Layout.STRIDED}, values=ValueDistribution.LARGE)), 40)
    assert {case.scale for case in found} == {Scale.GIANT}
    assert {case.dims["D"] for case in found} == {40, 1024}
    for case in found:
        assert INDEX_LIMIT * 33 // 32 < largest_tensor(GROWS, case) < 2 * INDEX_LIMIT
        assert (case.layouts, case.values) == ({}, ValueDistribution.NORMAL)
        assert GROWS.allows(case)
        assert not GROWS.allows(replace(case, scale=Scale.USUAL))


def test_a_case_stays_as_it_is_where_no_dim_grows() -> None:
    usual = with_dims(T=7, D=40)
    assert drawn_from(giants(OP, usual), 1) == [usual]
    assert not any(case.scale is Scale.GIANT for case in drawn(OP, 8))


def test_few_of_the_cases_that_are_drawn_are_giant() -> None:
    found = drawn(GROWS, 40)
    giant = sum(case.scale is Scale.GIANT for case in found)
    assert len(found) / (4 * ONE_IN) < giant < len(found) * 4 / ONE_IN


def test_a_size_grows_no_further_than_it_must() -> None:
    dims = {"T": 1, "D": 1000, "G": 1}
    rows = [Tensor(shape=("T", "G*D"))]
    assert grown(GROWS, dims, rows, ("T",), 1.0) == {**dims, "T": 2**31 // 1000 + 1}
    assert grown(GROWS, dims, [], ("T",), 1.0) is None


def test_where_one_dim_may_not_grow_so_far_the_next_does_too() -> None:
    dims = {"B": 1, "T": 3, "D": 100}
    rows = [Tensor(shape=("B", "T", "D"))]
    assert grown(SEQUENCES, dims, rows, ("B", "T"), 1.0) == {"B": 65_535, "T": 2**31 // (65_535 * 100) + 1, "D": 100}
    assert grown(SEQUENCES, dims, rows, ("B", "D"), 1.0) == {"B": 65_535, "T": 3, "D": 2**31 // (65_535 * 3) + 1}
    assert grown(SEQUENCES, dims, rows, ("D",), 1.0) is None


def test_states_grow_apart_from_the_tokens_of_their_sequences() -> None:
    assert ways(SEQUENCES) == (("B", "T", "D"), ("B", "D"))
    assert ways(GROWS) == (("T",),)
    assert ways(OP) == ()
    usual = Case(op=SEQUENCES.id, dims={"B": 2, "T": 700, "D": 9}, dtype=PLAINEST.dtype, device=DEVICE)
    found = drawn_from(giants(SEQUENCES, replace(usual, absent=("state",))), 60)
    giant = [case for case in found if is_giant(case)]
    assert len(giant) > 45
    states = [case for case in giant if not case.absent]
    assert 5 < len(states) < 50
    for case in giant:
        x, state = (prod(declared.extents(case.dims)) for declared in SEQUENCES.inputs.values())
        assert INDEX_LIMIT < (x if case.absent else state) < 2 * INDEX_LIMIT
        assert max(x, state) <= ROOM
        assert SEQUENCES.allows(case)
        assert not SEQUENCES.allows(replace(case, dims={**case.dims, "B": 65_536}))
    assert {case.dims["T"] for case in states} == {1}


def test_an_op_is_giant_as_often_in_each_of_its_ways() -> None:
    giant, usual = (len([case for case in drawn(op, 40) if is_giant(case)]) for op in (SEQUENCES, GROWS))
    assert 1.2 * usual < giant < 4 * usual


def is_giant(case: Case) -> bool:
    return case.scale is Scale.GIANT


def test_a_usual_case_is_plainer_than_any_giant_one_and_tried_where_its_dims_are_in_range() -> None:
    small = replace(PLAINEST, scale=Scale.GIANT)
    giant = replace(small, dims={**PLAINEST.dims, "T": 2**31})
    home = DEVICE.sm_count
    assert plainness(GROWS, with_dims(T=2048, D=1024), home) < plainness(GROWS, small, home)
    assert list(moves.scale(GROWS, small, home)) == [PLAINEST]
    assert list(moves.scale(GROWS, giant, home)) == []


def test_tokens_that_do_not_grow_keep_to_their_range() -> None:
    assert tokens(64, grows=False) == Dim(low=1, high=64)
