"""Definitions of random operations: the library's choices are used, or judged by their distribution."""

from typing import Any

import pytest
import torch

from harness.execution.execution import Execution
from harness.execution.random_results import drawn_from
from harness.model.case import Case, DType
from harness.model.op import Dim, Op
from harness.model.run import Completed, Result
from harness.suite import tensor
from tests.execution.ops_for_tests import DEVICE

SHARES = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.0])


def results_of(call: Any, definition: Any) -> dict[str, Result]:
    dims = {"T": Dim(low=1, high=4096), "D": Dim(low=1, high=64)}
    op = Op(name="op", suite="s.py", call=call, reference=definition, dims=dims, inputs={"x": tensor("T", "D")})
    case = Case(op=op.id, dims={"T": 400, "D": 5}, dtype=DType.FP32, device=DEVICE)
    ending, results = Execution(torch.enable_grad).run(op, case)
    assert ending == Completed()
    return {result.name: result for result in results}


@pytest.mark.parametrize(("scale", "is_right"), [(2.0, True), (1.0, False)])
def test_a_definition_takes_the_mask_that_the_library_returns(scale: float, *, is_right: bool) -> None:
    def dropout(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        kept = torch.rand(x.shape) < 0.5
        return x * kept * scale, kept

    def definition(x: torch.Tensor, y1: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * y1 / 0.5, y1

    results = results_of(dropout, definition)
    assert {name: result.whole.ratio <= 1 for name, result in results.items()} == {
        "y0": is_right,
        "y1": True,
        "d:x": is_right,
    }


@pytest.mark.parametrize(("temperature", "is_right"), [(1.0, True), (2.0, False)])
def test_samples_are_judged_by_their_distribution(temperature: float, *, is_right: bool) -> None:
    def sample(x: torch.Tensor) -> torch.Tensor:
        return torch.multinomial(torch.softmax(x.detach() / temperature, -1), 1).squeeze(-1)

    def definition(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return drawn_from(y, torch.softmax(x, -1))

    assert (results_of(sample, definition)["y"].whole.ratio <= 1) is is_right


def test_right_samples_of_any_number_are_plausible() -> None:
    for seed in range(200):
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.multinomial(SHARES, 1 + seed * 10, replacement=True, generator=generator)
        assert torch.equal(drawn_from(drawn, SHARES), drawn)


@pytest.mark.parametrize(
    "wrong",
    [
        torch.full((200,), 3),
        torch.arange(1000) % 4,
        torch.multinomial(SHARES.flip(0), 1000, replacement=True, generator=torch.Generator().manual_seed(0)),
    ],
    ids=["the likeliest", "each as often", "other shares"],
)
def test_samples_of_another_distribution_are_not(wrong: torch.Tensor) -> None:
    assert int(drawn_from(wrong, SHARES).max()) == -1 or bool((drawn_from(wrong, SHARES) != wrong).any())


def test_indices_without_a_probability_are_not_explained() -> None:
    assert drawn_from(torch.tensor([0, 4, 3, 7, -2]), SHARES).tolist() == [0, -1, 3, -1, -1]
    assert drawn_from(torch.zeros(0, dtype=torch.int32), SHARES).dtype is torch.int32
