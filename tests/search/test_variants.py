"""Kin of a case: legal, other than it, and alike in all that a compiler can tell."""

from dataclasses import replace

import pytest

from harness.model.case import Case, Scale, ValueDistribution
from harness.model.op import Dim
from harness.search.variants import kin, twins
from tests.search.fakes import OP, with_dims

pytestmark = pytest.mark.once

GROWING = replace(OP, dims={**OP.dims, "T": Dim(low=1, high=2048, grows=True)})


def fixed(case: Case) -> Case:
    return replace(case, dims={**case.dims, "T": 1}, values=ValueDistribution.NORMAL, seed=0)


@pytest.mark.parametrize(
    ("size", "sizes"), [(1, {1}), (16, {16}), (48, {48, 64}), (70, set(range(65, 128)) - {80, 96, 112})]
)
def test_kin_have_other_sizes_values_and_seeds_and_nothing_else(size: int, sizes: set[int]) -> None:
    case = replace(with_dims(T=size, D=65), configs={"layer_norm_bwd_kernel": 3}, seed=8)
    found = list(kin(GROWING, case, 1000))
    assert {one.dims["T"] for one in found} == sizes
    assert {fixed(one) == fixed(case) for one in found} == {True}
    assert len({one.values for one in found}) > 1
    assert len({one.seed for one in found}) > 100


def test_the_same_case_has_the_same_kin() -> None:
    assert list(kin(GROWING, with_dims(T=500), 16)) == list(kin(GROWING, with_dims(T=500), 16))
    assert list(kin(GROWING, with_dims(T=500), 16)) != list(kin(GROWING, with_dims(T=501), 16))


def test_only_legal_ones_are_kin() -> None:
    op = replace(GROWING, where=lambda given: given["T"] % 3 == 0)
    sizes = {one.dims["T"] for one in kin(op, with_dims(T=99), 50)}
    assert sizes
    assert {size % 3 for size in sizes} == {0}


def test_no_tensor_of_kin_is_larger_than_a_search_allows() -> None:
    sizes = [one.dims["T"] for one in kin(GROWING, with_dims(T=257, D=1000), 50)]
    assert max(sizes) <= 2**18 // 1000


def test_a_giant_case_has_none() -> None:
    assert list(kin(GROWING, replace(with_dims(T=500), scale=Scale.GIANT), 16)) == []


def test_twins_have_other_values_and_seeds_and_nothing_else() -> None:
    case = replace(with_dims(T=70, D=65), configs={"layer_norm_bwd_kernel": 3}, seed=8)
    found = list(twins(GROWING, case, 200))
    assert {replace(one, values=ValueDistribution.NORMAL, seed=8) == case for one in found} == {True}
    assert len({one.values for one in found}) > 1
    assert len({one.seed for one in found}) > 100
    assert found == list(twins(GROWING, case, 200))
    assert list(twins(GROWING, replace(case, scale=Scale.GIANT), 16)) == []
