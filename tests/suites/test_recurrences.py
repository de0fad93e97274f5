"""Recurrences in blocks give what they give step by step, forward and backward."""

from typing import Any

import pytest
import torch

from suites.fla.definitions import recurrences

Tensors = tuple[torch.Tensor, ...]


@pytest.mark.parametrize("length", [1, 8, 9, 64, 65, 600])
@pytest.mark.parametrize("has_decay", [False, True])
@pytest.mark.parametrize("has_state", [False, True])
def test_blocks_of_an_additive_recurrence_agree_with_its_steps(
    monkeypatch: pytest.MonkeyPatch, length: int, *, has_decay: bool, has_state: bool
) -> None:
    drawn = torch.Generator().manual_seed(length)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=drawn, dtype=torch.float64)

    q, k, v = normal(2, length, 3, 5), normal(2, length, 3, 5), normal(2, length, 3, 4)
    decay = torch.nn.functional.logsigmoid(normal(2, length, 3, 5)) if has_decay else None
    state = normal(2, 3, 5, 4) if has_state else None
    cotangents = normal(2, length, 3, 4), normal(2, 3, 5, 4)

    def computed(longest: int) -> Tensors:
        monkeypatch.setattr(recurrences, "LONG", longest)
        arguments: list[Any] = [None if x is None else x.clone().requires_grad_() for x in (q, k, v, decay, state)]
        results = recurrences.additive(*arguments)
        return *results, *torch.autograd.grad(results, [x for x in arguments if x is not None], cotangents)

    for blocked, stepped in zip(computed(0), computed(length), strict=True):
        torch.testing.assert_close(blocked, stepped, rtol=1e-10, atol=1e-10)
