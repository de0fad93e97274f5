"""What numbers of samples have in common counts only where chance hardly explains it."""

import pytest
import torch

from harness.checks.number_traits import differs_by_purpose, is_ascending, total_of

SORTED_ROWS = torch.tensor([[0.11, 0.2, 0.3], [0.1, 0.2, 0.39], [0.12, 0.5, 0.6]]) * 1.00001


@pytest.mark.parametrize(
    ("values", "ascends"),
    [
        (torch.tensor([-1.0, 0.0, 1.0]), True),
        (torch.tensor([0.25, 0.5]), False),
        (torch.tensor([-1.000123, 0.23456, 1.23123]), False),
        (torch.linspace(-1.7, 2.3, 6), True),
        (torch.randn(50, generator=torch.Generator().manual_seed(0)), False),
        (torch.ones(100), False),
        (torch.tensor([0, 0, 0, 1, 1, 2, 2, 2]), True),
        (torch.tensor([0, 4, 9]), False),
        (SORTED_ROWS, True),
        (SORTED_ROWS[:2], False),
        (torch.tensor(3.0), False),
    ],
)
def test_sorted_rows_count_if_chance_hardly_sorts_them(values: torch.Tensor, *, ascends: bool) -> None:
    assert is_ascending([values]) == ascends


def test_a_sample_that_is_not_sorted_refutes_the_others() -> None:
    assert not is_ascending([torch.arange(9.0), torch.arange(9.0).flip(0)])


@pytest.mark.parametrize(
    ("values", "span", "differs"),
    [
        (torch.randperm(8), 8, True),
        (torch.tensor([3, 1, 7]), 10, False),
        (torch.arange(16), 1 << 20, False),
        (torch.tensor([[0, 3], [1, 2], [3, 2], [0, 1]] * 8), 4, True),
        (torch.tensor([[0, 3], [1, 1]] * 20), 4, False),
    ],
)
def test_integers_differ_on_purpose_if_chance_would_repeat_some(
    values: torch.Tensor, span: int, *, differs: bool
) -> None:
    assert differs_by_purpose([values], span) == differs


@pytest.mark.parametrize(
    ("bounds", "total"),
    [
        ([[0, 5, 12]], "T"),
        ([[0, 24, 48]], "B*T2"),
        ([[0, 5, 5, 12]], "T"),
        ([[0, 5, 11]], ""),
        ([[1, 5, 12]], ""),
        ([[0, 9, 5, 12]], ""),
        ([[0, 5, 12], [0, 3, 12]], ""),
    ],
)
def test_boundaries_end_at_a_size_or_at_a_product_of_two(bounds: list[list[int]], total: str) -> None:
    each = len(bounds)
    sizes = {"T": (12, 7)[:each], "B": (2, 2)[:each], "T2": (24, 9)[:each]}
    assert total_of([torch.tensor(one) for one in bounds], sizes) == total
