"""Recurrences in blocks give what they give step by step, forward and backward."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from suites.fla.definitions import _recurrences as recurrences

Tensors = tuple[torch.Tensor, ...]
KEYS, VALUES = 5, 4


class Drawn:
    """Draws normal numbers in float64, from a seed."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self._generator, dtype=torch.float64)

    def rows(self, length: int, size: int) -> torch.Tensor:
        return self.normal(2, length, 3, size)

    def gates(self, length: int, size: int) -> torch.Tensor | None:
        return torch.nn.functional.logsigmoid(self.rows(length, size)) if size else None


def assert_blocks_agree_with_steps(
    monkeypatch: pytest.MonkeyPatch, recurrence: Callable[..., Any], arguments: tuple[torch.Tensor | None, ...]
) -> None:
    """Compare results and gradients of a recurrence in blocks and step by step."""
    drawn, length = Drawn(7), 0 if arguments[0] is None else arguments[0].shape[1]
    cotangents = drawn.rows(length, VALUES), drawn.normal(2, 3, KEYS, VALUES)

    def computed(longest: int) -> Tensors:
        monkeypatch.setattr(recurrences, "SHORT", longest)
        leaves = [None if x is None else x.clone().requires_grad_() for x in arguments]
        results = recurrence(*leaves)
        return *results, *torch.autograd.grad(results, [x for x in leaves if x is not None], cotangents)

    for blocked, stepped in zip(computed(0), computed(length), strict=True):
        torch.testing.assert_close(blocked, stepped, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("length", [1, 8, 9, 64, 65, 600])
@pytest.mark.parametrize("gates", [0, KEYS])
@pytest.mark.parametrize("has_state", [False, True])
def test_blocks_of_an_additive_recurrence_agree_with_its_steps(
    monkeypatch: pytest.MonkeyPatch, length: int, gates: int, *, has_state: bool
) -> None:
    drawn = Drawn(length)
    q, k, v = drawn.rows(length, KEYS), drawn.rows(length, KEYS), drawn.rows(length, VALUES)
    state = drawn.normal(2, 3, KEYS, VALUES) if has_state else None
    arguments = (q, k, v, drawn.gates(length, gates), state)
    assert_blocks_agree_with_steps(monkeypatch, recurrences.additive, arguments)


@pytest.mark.parametrize("length", [1, 9, 16, 70])
@pytest.mark.parametrize("gates", [0, 1, KEYS])
@pytest.mark.parametrize("has_state", [False, True])
def test_blocks_of_a_delta_rule_agree_with_its_steps(
    monkeypatch: pytest.MonkeyPatch, length: int, gates: int, *, has_state: bool
) -> None:
    drawn = Drawn(length)
    q, v, beta = drawn.rows(length, KEYS), drawn.rows(length, VALUES), drawn.rows(length, 1).sigmoid()
    k = torch.nn.functional.normalize(drawn.rows(length, KEYS), dim=-1)
    state = drawn.normal(2, 3, KEYS, VALUES) if has_state else None
    arguments = (q, k, v, 2 * beta, drawn.gates(length, gates), state)
    assert_blocks_agree_with_steps(monkeypatch, recurrences.delta, arguments)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("gates", [0, 1, KEYS])
def test_blocks_of_a_delta_rule_round_about_as_much_as_its_steps(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, gates: int
) -> None:
    drawn, length = Drawn(1), 70
    k = torch.nn.functional.normalize(drawn.rows(length, KEYS), dim=-1)
    rows = (drawn.rows(length, KEYS), k, drawn.rows(length, VALUES), drawn.rows(length, 1).sigmoid())
    arguments = tuple(None if x is None else x.to(dtype) for x in (*rows, drawn.gates(length, gates), None))

    def computed(longest: int, of: torch.dtype) -> torch.Tensor:
        monkeypatch.setattr(recurrences, "SHORT", longest)
        leaves = [None if x is None else x.to(of, copy=True).requires_grad_() for x in arguments]
        o, _ = recurrences.delta(*leaves)  # pyright: ignore[reportArgumentType] - the last ones may be None
        gradients = torch.autograd.grad(o.square().sum(), [x for x in leaves if x is not None])
        found = (x.detach().double().flatten() for x in (o, *gradients))
        return torch.cat([each / each.square().mean().sqrt() for each in found])

    truth = computed(length, torch.float64)
    blocked, stepped = (float((computed(longest, dtype) - truth).square().mean().sqrt()) for longest in (0, length))
    assert 0.25 * stepped <= blocked <= 1.5 * stepped
