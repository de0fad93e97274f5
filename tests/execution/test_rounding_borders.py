"""Where a definition rounds next to a border both neighbours are right, and nowhere else."""

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest
import torch

from harness.execution.execution import Execution
from harness.execution.monte_carlo import FLOAT32_EPSILON, Jitter
from harness.execution.rounding_borders import RandomRounding, neighbours_of
from harness.execution.tolerance import Neighbours
from tests.execution.ops_for_tests import ROWS, case, op

NEAR, INSIDE = [2.5 + 1e-7, -1.5 - 1e-7, 3 - 1e-7, 4.0, -0.5], [0.3, 1.7, -2.2, 2.49, 3.01]
ROUNDING = RandomRounding(epsilon=FLOAT32_EPSILON, products=0.0)
Define = Callable[[torch.Tensor], torch.Tensor]


def neighbours_at(define: Define, arguments: list[float]) -> Neighbours:
    values = torch.tensor(arguments, dtype=torch.float64)
    return neighbours_of(lambda: {"q": define(values / 2 * 2)}, ROUNDING)["q"]


@pytest.mark.parametrize(
    ("define", "at_borders"),
    [
        (lambda t: t.round().to(torch.int8), [True, True, False, False, True]),
        (lambda t: t.floor().to(torch.int8), [False, False, True, True, False]),
        (lambda t: t.ceil().to(torch.int32), [False, False, True, True, False]),
        (lambda t: t.to(torch.int8), [False, False, True, True, False]),
        (lambda t: (t // 1).to(torch.int64), [False, False, True, True, False]),
        (lambda t: torch.div(t, 1, rounding_mode="trunc").to(torch.int8), [False, False, True, True, False]),
        (lambda t: (t.clone().round_() + 3).clamp(-4, 9).to(torch.int8), [True, True, False, False, True]),
        (
            lambda t: t.round().clamp(-128, 127).to(torch.int8).to(torch.float64).to(torch.int8),
            [True, True] + [False] * 2 + [True],
        ),
    ],
)
def test_both_neighbours_of_a_border_are_right(define: Define, at_borders: list[bool]) -> None:
    neighbours = neighbours_at(define, NEAR)
    assert (neighbours.high - neighbours.low).tolist() == [float(at_border) for at_border in at_borders]
    inside = neighbours_at(define, INSIDE)
    assert np.array_equal(inside.low, inside.high)


def test_a_number_that_wraps_around_is_one_of_two() -> None:
    neighbours = neighbours_at(lambda t: t.ceil().to(torch.int8), [127.0, 4.5])
    assert neighbours.beyond(np.array([127.0, 5.0])).tolist() == [0.0, 0.0]
    assert neighbours.beyond(np.array([-128.0, 6.0])).tolist() == [0.0, 1.0]
    assert neighbours.beyond(np.array([3.0, 4.0])).tolist() == [-124.0, -1.0]


def test_a_cast_out_of_range_is_not_defined() -> None:
    neighbours = neighbours_at(lambda t: t.round().to(torch.int8), [300.2, float("nan"), -128.4, 4.2])
    assert neighbours.beyond(np.array([-7.0, 0.0, -128.0, 4.0])).tolist() == [0.0] * 4
    assert neighbours.beyond(np.array([44.0, 9.0, -127.0, 5.0])).tolist() == [0.0, 0.0, 1.0, 1.0]


def test_a_longer_computation_is_less_exact() -> None:
    whole = neighbours_at(lambda t: (t + 2.4999).round().to(torch.int64), [0.0])
    assert (whole.low.item(), whole.high.item()) == (2, 2)
    terms = torch.cat([torch.full((64,), 1e4), torch.full((64,), -1e4)]).double()
    neighbours = neighbours_of(
        lambda: {"q": (terms * 1.3).sum(0, keepdim=True).add(2.4999).round().to(torch.int64)}, ROUNDING
    )
    assert neighbours["q"].low.item() < 3 <= neighbours["q"].high.item()


def test_results_that_nothing_rounds_have_no_spans() -> None:
    x = torch.randn(9, dtype=torch.float64)
    assert neighbours_of(lambda: {"at": x.argmax(keepdim=True)}, ROUNDING) == {}
    assert neighbours_of(lambda: {"y": x.round()}, ROUNDING) == {}


def test_random_rounding_leaves_whole_numbers_whole() -> None:
    x = torch.linspace(-99.3, 99.2, 1000, dtype=torch.float64)
    wanted = (x.round().clamp(-50, 50) + 3).to(torch.int8)
    for seed in range(3):
        with Jitter(FLOAT32_EPSILON, seed):
            assert torch.equal((x.round().clamp(-50, 50) + 3).to(torch.int8), wanted)
            assert not torch.equal(x.round() * 1.5, x.round().mul(3).div(2))
            changed = x.round()
            changed.add_(0.25)
            assert not torch.equal(changed * 2, x.round() * 2 + 0.5)


@pytest.mark.parametrize(("shift", "is_right"), [(0.0, True), (0.01, False)])
def test_a_quantiser_that_rounds_at_another_place_is_wrong(shift: float, *, is_right: bool) -> None:
    def scale_of(x: torch.Tensor) -> torch.Tensor:
        return x.abs().amax(-1, keepdim=True) / 127

    def quantised(x: torch.Tensor) -> torch.Tensor:
        return (x * (1 / scale_of(x)) + shift).floor().to(torch.int8)

    declared = op(quantised, lambda x: (x / scale_of(x)).floor().to(torch.int8), {"x": ROWS})
    for seed in range(4):
        _, results = Execution(nullcontext).run(declared, case(seed=seed, rows=64, columns=64))
        assert [result.is_right for result in results if result.name == "y"] == [is_right]
