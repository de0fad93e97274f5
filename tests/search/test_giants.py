"""Giant cases: one dim grows until 32 bits cannot count the elements, and only where its op lets it."""

from dataclasses import replace
from math import prod

import hypothesis
import pytest
from hypothesis import strategies as st

from harness.model.case import Case, Layout, Scale, Values
from harness.model.op import Dim, Op
from harness.search import moves
from harness.search.giants import INDEX_LIMIT, ONE_IN, giants, grown
from harness.search.hints import Hints
from harness.search.plainness import plainness
from harness.search.strategies import ALL_HEALTH_CHECKS, Batch
from harness.suite import tokens
from tests.search.pretence import DEVICE, OP, PLAINEST, with_dims

pytestmark = pytest.mark.once

GROWS = replace(OP, dims={**OP.dims, "T": tokens(2048)})
"""As `OP`, but that T may be any in giant cases."""


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
    found = drawn_from(giants(GROWS, replace(usual, layouts={"x": Layout.STRIDED}, values=Values.LARGE)), 40)
    assert {case.scale for case in found} == {Scale.GIANT}
    assert {case.dims["D"] for case in found} == {40, 1024}
    for case in found:
        assert INDEX_LIMIT * 33 // 32 < largest_tensor(GROWS, case) < 2 * INDEX_LIMIT
        assert (case.layouts, case.values) == ({}, Values.NORMAL)
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
    assert grown(GROWS, dims, (), "T", 2**31) == 2**31 // 1000 + 1
    assert grown(replace(GROWS, inputs={}), dims, (), "T", 2**31) is None


def test_a_usual_case_is_plainer_than_any_giant_one_and_tried_where_its_dims_are_in_range() -> None:
    small = replace(PLAINEST, scale=Scale.GIANT)
    giant = replace(small, dims={**PLAINEST.dims, "T": 2**31})
    home = DEVICE.sm_count
    assert plainness(GROWS, with_dims(T=2048, D=1024), home) < plainness(GROWS, small, home)
    assert list(moves.scale(GROWS, small, home)) == [PLAINEST]
    assert list(moves.scale(GROWS, giant, home)) == []


def test_tokens_that_do_not_grow_keep_to_their_range() -> None:
    assert tokens(64, grows=False) == Dim(low=1, high=64)
