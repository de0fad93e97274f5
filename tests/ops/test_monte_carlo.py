"""Random rounding draws seeded noise, without overhead of TorchDynamo."""

import random

import pytest
import torch

from harness.ops.monte_carlo import NOISE_ELEMENTS, Jitter

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
