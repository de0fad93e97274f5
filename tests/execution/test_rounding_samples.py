"""A result beyond its tolerance gets more runs with random rounding before it is called wrong."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch

from harness.execution.execution import Execution
from harness.execution.execution_hooks import ObservedLaunches
from harness.execution.rounding_samples import IN_DOUBT, USUALLY, Sampling, are_right, is_doubtful
from harness.execution.tolerance import Truth, largest_error_of
from harness.model.run import Result
from tests.execution.ops_for_tests import RMS_NORM, case
from tests.execution.test_compare import compared, expected


def in_doubt(got: torch.Tensor, truth: torch.Tensor, rounding_of_rows: torch.Tensor) -> Result:
    usual = expected(truth, 1e-7)
    moved = replace(usual.rounding, per_tile=rounding_of_rows.double().numpy())
    want = replace(usual, rounding=moved, checks_noise=IN_DOUBT.checks_noise)
    return compared(got, want)


def test_rows_of_pure_noise_are_not_checked_after_more_samples() -> None:
    truth = torch.ones(4, 8)
    got = truth.clone()
    got[2] = 50.0
    noise = torch.full((4,), 1e-7)
    assert in_doubt(got, truth, noise).worst_tile.ratio > 1
    noise[2] = 2.0
    settled = in_doubt(got, truth, noise)
    assert (settled.worst_tile.ratio, settled.unjudged) == (0.0, 8)


def test_all_other_rows_are_checked() -> None:
    truth = torch.ones(4, 8)
    got = truth.clone()
    got[1] = 1.5
    noise = torch.tensor([1e-7, 1e-7, 2.0, 1e-7])
    assert in_doubt(got, truth, noise).worst_tile.index[0] == 1
    assert is_doubtful(in_doubt(truth + 1e-4, truth, noise))


def test_each_row_keeps_the_worst_of_many_runs() -> None:
    truth = np.zeros((2, 2))
    one, other = truth.copy(), truth.copy()
    one[0], other[1] = 3.0, 4.0
    errors = largest_error_of([one, other, truth], Truth.of(truth))
    assert (errors.per_tile.tolist(), errors.whole) == ([3.0, 4.0], pytest.approx(8**0.5))


def test_most_results_get_few_runs_and_doubtful_ones_many() -> None:
    assert [USUALLY.runs(elements) for elements in (1, 256, 257, 5000)] == [8, 8, 4, 1]
    assert [IN_DOUBT.runs(elements) for elements in (1, 1 << 16, 1 << 17, 1 << 21)] == [32, 32, 8, 4]


@pytest.mark.parametrize("sampling", [USUALLY, IN_DOUBT], ids=["usually", "in-doubt"])
def test_the_first_samples_show_no_more_error_than_all(sampling: Sampling) -> None:
    draws = np.random.default_rng(1)
    truth = Truth.of(draws.normal(size=(4, 8)))
    moved = [truth.values + draws.normal(scale=10.0 ** draws.uniform(-9, 0), size=(4, 8)) for _ in range(32)]
    for runs in (1, 8, 32):
        every = sampling.error(moved[:runs], truth)
        so_far = [sampling.error_so_far(moved[:taken], truth, runs) for taken in range(1, runs + 1)]
        assert all((some.per_tile <= every.per_tile).all() and some.whole <= every.whole for some in so_far)
        assert (so_far[-1].per_tile.tolist(), so_far[-1].whole) == (every.per_tile.tolist(), every.whole)


def cancelling_calls(error: float, *, compared_by_others: bool) -> tuple[int, bool]:
    """Return how often a definition that only rounding moves runs, and whether results with an error are right."""
    calls: list[torch.dtype] = []

    def cancels(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        calls.append(x.dtype)
        return (x * 0 + 8192.0 - 8192.0) * w

    def call(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x * 0 * w + error

    execution = Execution(nullcontext, launches=ObservedLaunches(is_compared=lambda _: compared_by_others))
    _, results = execution.run(replace(RMS_NORM, call=call, reference=cancels), case(columns=8))
    return len(calls), are_right(results)


def test_sampling_ends_once_results_are_right_in_any_case() -> None:
    rounding = 2.0**-13
    truth_and_baseline, samples = 2, USUALLY.runs(24)
    assert cancelling_calls(rounding, compared_by_others=True) == (truth_and_baseline + samples, True)
    assert cancelling_calls(rounding, compared_by_others=False) == (truth_and_baseline + 1, True)
    assert cancelling_calls(1.0, compared_by_others=False)[1] is False


def definition_calls(*, wrong: bool, compared_by_others: bool) -> tuple[int, tuple[Result, ...]]:
    calls: list[torch.dtype] = []

    def counted(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        calls.append(x.dtype)
        return RMS_NORM.reference(x, w)

    def call(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return RMS_NORM.call(x, w) * (1.5 if wrong else 1.0)

    execution = Execution(nullcontext, launches=ObservedLaunches(is_compared=lambda _: compared_by_others))
    _, results = execution.run(replace(RMS_NORM, call=call, reference=counted), case(columns=8))
    return len(calls), results


def test_exact_results_need_neither_baseline_nor_random_rounding() -> None:
    quick, results = definition_calls(wrong=False, compared_by_others=False)
    thorough, same = definition_calls(wrong=False, compared_by_others=True)
    assert quick == 1
    assert thorough > 2
    assert are_right(results)
    assert [one.digest for one in results] == [one.digest for one in same]
    assert all(one.sketch for one in same)
    assert not any(one.sketch for one in results)


def test_inexact_results_get_baseline_and_random_rounding() -> None:
    _, results = definition_calls(wrong=True, compared_by_others=False)
    _, same = definition_calls(wrong=True, compared_by_others=True)
    sketchless = [replace(one, sketch=(), sketch_tolerance=()) for one in same]
    assert list(results) == sketchless
    assert not are_right(results)
