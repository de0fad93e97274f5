"""Variants of a case are legal and distinct, and launch the same compiled kernels."""

from dataclasses import replace

import pytest

from harness.model.case import Case, Scale, ValueDistribution
from harness.model.op import Dim
from harness.search.variants import shape_variants, value_variants
from tests.search.fakes import OP, with_dims

GROWING = replace(OP, dims={**OP.dims, "T": Dim(low=1, high=2048, grows=True)})


def fixed(case: Case) -> Case:
    return replace(case, dims={**case.dims, "T": 1}, values=ValueDistribution.NORMAL, seed=0)


@pytest.mark.parametrize(
    ("size", "sizes"), [(1, {1}), (16, {16}), (48, {48, 64}), (70, set(range(65, 128)) - {80, 96, 112})]
)
def test_shape_variants_differ_in_sizes_values_and_seeds_only(size: int, sizes: set[int]) -> None:
    case = replace(with_dims(T=size, D=65), configs={"layer_norm_bwd_kernel": 3}, seed=8)
    found = list(shape_variants(GROWING, case, 1000))
    assert {one.dims["T"] for one in found} == sizes
    assert {fixed(one) == fixed(case) for one in found} == {True}
    assert len({one.values for one in found}) > 1
    assert len({one.seed for one in found}) > 100


def test_equal_cases_have_equal_shape_variants() -> None:
    assert list(shape_variants(GROWING, with_dims(T=500), 16)) == list(shape_variants(GROWING, with_dims(T=500), 16))
    assert list(shape_variants(GROWING, with_dims(T=500), 16)) != list(shape_variants(GROWING, with_dims(T=501), 16))


def test_shape_variants_are_legal() -> None:
    op = replace(GROWING, where=lambda given: given["T"] % 3 == 0)
    sizes = {one.dims["T"] for one in shape_variants(op, with_dims(T=99), 50)}
    assert sizes
    assert {size % 3 for size in sizes} == {0}


def test_shape_variants_keep_the_element_limit() -> None:
    sizes = [one.dims["T"] for one in shape_variants(GROWING, with_dims(T=257, D=1000), 50)]
    assert max(sizes) <= 2**18 // 1000


def test_an_oversized_case_has_no_shape_variants() -> None:
    assert list(shape_variants(GROWING, replace(with_dims(T=500), scale=Scale.OVERSIZED), 16)) == []


def test_value_variants_differ_in_values_and_seeds_only() -> None:
    case = replace(with_dims(T=70, D=65), configs={"layer_norm_bwd_kernel": 3}, seed=8)
    found = list(value_variants(GROWING, case, 200))
    assert {replace(one, values=ValueDistribution.NORMAL, seed=8) == case for one in found} == {True}
    assert len({one.values for one in found}) > 1
    assert len({one.seed for one in found}) > 100
    assert found == list(value_variants(GROWING, case, 200))
    assert list(value_variants(GROWING, replace(case, scale=Scale.OVERSIZED), 16)) == []
