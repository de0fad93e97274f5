"""Random rounding draws seeded noise, without overhead of TorchDynamo."""

import random

import pytest
import torch

from harness.execution.exact_comparison import SPACING
from harness.execution.monte_carlo import NOISE_ELEMENTS, Jitter

EPSILON = 2.0**-10


def noise() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return 2 * torch.rand(NOISE_ELEMENTS, generator=generator, dtype=torch.float64) - 1


@pytest.mark.parametrize("count", [1, 1000, NOISE_ELEMENTS, NOISE_ELEMENTS + 1, 5 * NOISE_ELEMENTS])
def test_noise_wraps_around_from_a_seeded_start(count: int) -> None:
    value = torch.linspace(1, 2, count, dtype=torch.float64)
    with Jitter(EPSILON, seed=7):
        moved = torch.exp(value)
    start = random.Random(7).randrange(NOISE_ELEMENTS)  # noqa: S311 - the same draw
    places = (start + torch.arange(count)) % NOISE_ELEMENTS
    assert torch.equal(moved, value.exp() * (1 + EPSILON * noise()[places]))


def test_dynamo_wraps_no_operation() -> None:
    assert Jitter.__torch_dispatch__.__module__ == Jitter.__module__
    assert not hasattr(Jitter.__torch_dispatch__, "__wrapped__")


def test_a_mask_of_numbers_is_not_moved() -> None:
    x = torch.linspace(-1, 1, 12, dtype=torch.float64).view(3, 4).requires_grad_()
    for seed in range(4):
        with Jitter(EPSILON, seed=seed):
            loss = torch.nn.functional.multilabel_margin_loss(x, torch.tensor([[0, 2, -1, 1]] * 3))
            loss.backward()
        assert loss.item() != 0


def test_a_solver_shows_how_its_matrix_magnifies_rounding() -> None:
    nearly_singular = torch.tensor([[1.0, 1.0], [1.0, 1.0 + 1e-4]], dtype=torch.float64)
    with Jitter(EPSILON * 1e-4, seed=1):
        moved = torch.linalg.inv(nearly_singular)
    assert (moved / torch.linalg.inv(nearly_singular) - 1).abs().max() > 100 * EPSILON * 1e-4


def test_the_smallest_numbers_of_float64_move_by_their_distance() -> None:
    x = torch.full((64,), -738.0, dtype=torch.float64)
    with Jitter(2.0**-24, seed=0):
        scaled = x.exp().log()
    with Jitter(2.0**-24, seed=0, spacing=SPACING):
        stepped = x.exp().log()
    assert (scaled - x).abs().max() < 1e-3 < (stepped - x).abs().max()
