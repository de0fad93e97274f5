"""The comparison of exact values with the definition."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from harness.execution.exact_comparison import ExactValues, compare_exact
from harness.execution.tolerance import NO_ERROR, Array, Expected, Truth
from harness.model.run import Role

N = 64


def expected(values: Array) -> Expected:
    return Expected(role=Role.OUTPUT, truth=Truth.of(values), baseline=NO_ERROR, rounding=NO_ERROR, samples=0)


def ratio(truth: Array, exact: Array, *, moved: float = 0.0, real: Array | None = None) -> float:
    """Return the error in units of the bound, for a definition that moved steps move by so much."""
    values = ExactValues(real=torch.from_numpy(truth if real is None else real), exact=exact)
    return compare_exact("y", values, expected(truth), [truth + moved] * 2, {"y": truth}).worst.ratio


def test_two_units_of_float32_are_right() -> None:
    truth = np.ones(N)
    assert ratio(truth, truth + 2.0**-22) <= 1 < ratio(truth, truth + 2.0**-21)


def test_a_definition_that_cancels_has_a_wider_bound() -> None:
    truth = np.ones(N)
    assert ratio(truth, truth + 1e-4, moved=1e-4) < 1 < ratio(truth, truth + 1e-4)


def test_one_wrong_row_is_enough() -> None:
    truth = np.ones((100, N))
    exact = truth.copy()
    exact[7] += 1e-6
    assert ratio(truth, exact) > 1


def test_an_unknown_element_is_not_compared() -> None:
    truth, exact = np.ones(N), np.ones(N)
    exact[3] = math.nan
    values = ExactValues(real=torch.ones(N), exact=exact)
    compared = compare_exact("y", values, expected(truth), [truth], {"y": truth})
    assert (compared.is_known, compared.worst.ratio) == (False, 0.0)


@pytest.mark.parametrize(("real", "is_known"), [(1.0, False), (math.inf, True)])
def test_an_exact_value_beyond_the_type_is_known_if_the_result_overflows(real: float, *, is_known: bool) -> None:
    truth, exact = np.ones(N), np.ones(N)
    exact[3] = 4e213
    values = ExactValues(real=torch.ones(N), exact=exact)
    values.real[3] = real
    compared = compare_exact("y", values, expected(truth), [truth], {"y": truth})
    assert (compared.is_known, compared.worst.got) == (is_known, 1.0 if not is_known else 4e213)


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_result_that_is_not_finite_without_rounding_is_wrong(broken: float) -> None:
    truth = np.ones(N)
    exact = np.full(N, broken)
    assert ratio(truth, exact, real=exact) == math.inf


def test_errors_that_float64_rounding_explains_are_none() -> None:
    truth, exact = np.zeros(N), np.full(N, 1e-16)
    values = ExactValues(real=torch.zeros(N), exact=exact)
    ratios = [
        compare_exact("y", replace(values, moved=moved), expected(truth), [truth], {"y": truth}).worst.ratio
        for moved in (None, -exact)
    ]
    assert [one > 1 for one in ratios] == [True, False]


def test_noise_that_happens_to_be_zero_in_one_row_explains_it_all_the_same() -> None:
    truth, exact = np.zeros((2, N)), np.full((2, N), 1e-16)
    moved = -exact
    moved[0] = exact[0]
    values = ExactValues(real=torch.zeros(2, N), exact=exact, moved=moved)
    assert compare_exact("y", values, expected(truth), [truth], {"y": truth}).worst.ratio <= 1


def test_the_element_shown_is_of_the_row_that_is_wrong() -> None:
    truth, moved = np.ones((16, N)), np.ones((16, N))
    truth[0], moved[0] = 1e9, 1e9 + 1e3
    exact = truth.copy()
    exact[0, 3] += 1e2  # as far as moving the definition explains
    exact[1, 5] += 9e1
    values = ExactValues(real=torch.from_numpy(truth), exact=exact)
    assert compare_exact("y", values, expected(truth), [moved], {"y": truth}).worst.index == (1, 5)


def test_a_row_that_overflows_when_moved_explains_no_other_row() -> None:
    truth, exact = np.zeros((2, N)), np.full((2, N), 1e-16)
    moved = exact.copy()
    moved[0] = math.nan
    values = ExactValues(real=torch.zeros(2, N), exact=exact, moved=moved)
    assert compare_exact("y", values, expected(truth), [truth], {"y": truth}).worst.ratio > 1


def test_nothing_explains_a_result_that_is_not_finite() -> None:
    truth, exact = np.ones(N), np.full(N, math.nan)
    values = ExactValues(real=torch.full((N,), math.nan), exact=exact, moved=exact)
    assert compare_exact("y", values, expected(truth), [truth], {"y": truth}).worst.ratio == math.inf
