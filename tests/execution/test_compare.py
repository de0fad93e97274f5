"""Comparison with the reference: right results never fail, and wrong ones show where they are wrong."""

import math
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch

from harness.execution.compare import Noted, compare
from harness.execution.execution import Execution
from harness.execution.inputs import TORCH_DTYPES
from harness.execution.tolerance import Errors, Expected, Truth, error_of, tiles, tolerance_of
from harness.model.case import USUAL_DTYPES, DType, ValueDistribution
from harness.model.run import Completed, Result, Role
from tests.execution.ops_for_tests import LAYER_NORM, RMS_NORM, case

SIZES = [(1, 1), (1, 2), (2, 1), (3, 3), (1, 100), (100, 1), (7, 5), (33, 64), (100, 100)]


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize("values", list(ValueDistribution))
@pytest.mark.parametrize("dtype", USUAL_DTYPES)
def test_right_results_never_fail(dtype: DType, values: ValueDistribution, name: str) -> None:
    op = {"layer_norm": LAYER_NORM, "rms_norm": RMS_NORM}[name]
    execution = Execution(nullcontext)
    worst: list[tuple[float, str, tuple[int, int], int]] = []
    for rows, columns in SIZES:
        for seed in range(3):
            absent = ((), ("w",), tuple(sorted(set(op.inputs) - {"x"})))[seed]
            ending, results = execution.run(
                op, case(rows=rows, columns=columns, dtype=dtype, values=values, absent=absent, seed=seed)
            )
            assert ending == Completed()
            worst += [
                (max(result.whole.ratio, result.worst_tile.ratio), result.name, (rows, columns), seed)
                for result in results
            ]
    assert max(worst)[0] < 0.8, sorted(worst)[-4:]


def expected(truth: torch.Tensor, error: float) -> Expected:
    """A reference whose baseline and rounding err by so much everywhere."""
    wide = truth.double().numpy()
    errors = Errors(per_tile=np.full(len(tiles(wide)), error), whole=error)
    return Expected(role=Role.OUTPUT, truth=Truth.of(wide), baseline=errors, rounding=errors, samples=8)


def judged(got: torch.Tensor, truth: torch.Tensor, error: float = 1e-7) -> Result:
    return compared(got, expected(truth, error))


def compared(got: torch.Tensor, want: Expected) -> Result:
    return compare("y", got, want, tolerance_of(want, got.dtype, 2.0), Noted(sketch_seed=0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_one_wrong_row_among_many_shows_in_its_tile(dtype: torch.dtype) -> None:
    truth = torch.randn(10_000, 8).double()
    got = truth.to(dtype)
    assert judged(got, truth).worst_tile.ratio < 1
    got[4321] *= 1.05
    result = judged(got, truth)
    assert result.worst_tile.ratio > 1.5
    assert result.worst_tile.index[0] == 4321
    column = result.worst_tile.index[1]
    assert result.worst_tile.got == float(got[4321, column])
    assert result.worst_tile.expected == float(truth[4321, column])


def test_a_wrong_part_of_a_vector_shows_in_its_tile() -> None:
    truth = torch.randn(1000).double()
    got = truth.float()
    got[900] += 1
    result = judged(got, truth)
    assert result.worst_tile.ratio > 1
    assert result.worst_tile.index == (900,)
    assert result.whole.index == (900,)


def test_non_finite_elements_are_counted_and_wrong() -> None:
    truth = torch.randn(6, 5).double()
    got = truth.float()
    got[2, 3], got[4, 1] = math.nan, math.inf
    result = judged(got, truth)
    assert result.nonfinite == 2
    assert result.whole.ratio == math.inf
    assert result.worst_tile.ratio == math.inf
    assert result.worst_tile.index == (2, 3)
    assert math.isnan(result.worst_tile.got)


def test_elements_that_are_infinite_in_the_reference_are_right() -> None:
    truth = torch.tensor([[1.0, math.inf, math.nan, 1e6, -1e6]]).double()
    got = truth.to(torch.float16)
    assert bool(got[0, 3].isinf())
    result = judged(got, truth)
    assert result.nonfinite == 0
    assert result.whole.ratio < 1
    assert result.worst_tile.ratio < 1


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0), (2, 0, 3)], ids=str)
def test_empty_results_are_right(shape: tuple[int, ...]) -> None:
    result = judged(torch.zeros(shape), torch.zeros(shape))
    assert (result.whole.ratio, result.worst_tile.ratio, result.nonfinite, result.unwritten) == (0.0, 0.0, 0, 0)
    assert result.shape == shape


def test_a_scalar_is_compared() -> None:
    assert judged(torch.tensor(1.0), torch.tensor(1.0)).whole.ratio < 1
    assert judged(torch.tensor(1.1), torch.tensor(1.0)).whole.ratio > 1


def test_the_error_of_a_scalar_is_measured() -> None:
    truth = Truth.of(np.array(2.0))
    assert error_of([np.array(2.5), np.array(1.5)], truth).whole == 0.5
    assert error_of([np.array(math.nan)], truth).per_tile.tolist() == [0.0]
    assert Truth.of(np.array(math.inf)).largest == 0.0


def test_equal_bits_have_equal_digests_whatever_the_strides() -> None:
    truth = torch.randn(4, 6)
    same, other = truth.T.contiguous().T, truth.clone()
    other[3, 5] += 1e-3
    digests = [judged(got, truth).digest for got in (truth, same, other)]
    assert digests[0] == digests[1] != digests[2]


def test_a_single_element_has_a_digest_whatever_its_stride() -> None:
    one = torch.tensor([2.5], dtype=torch.bfloat16)
    assert judged(one.as_strided((1, 1), (1, 0)), one[None].double()).digest == judged(one, one.double()).digest


def test_sketches_separate_right_results_from_wrong_ones() -> None:
    truth = torch.randn(40, 50).double()
    first, second = (truth * (1 + 1e-7 * torch.randn(40, 50)) for _ in range(2))
    wrong = first.clone()
    wrong[10] *= 1.1
    one, two, three = (judged(got.float(), truth) for got in (first, second, wrong))
    gaps = [abs(a - b) / limit for a, b, limit in zip(one.sketch, two.sketch, one.sketch_tolerance, strict=True)]
    assert max(gaps) < 1
    gaps = [abs(a - b) / limit for a, b, limit in zip(one.sketch, three.sketch, one.sketch_tolerance, strict=True)]
    assert max(gaps) > 1


def test_every_dtype_of_a_case_is_known() -> None:
    assert set(TORCH_DTYPES) == set(DType)


def test_elements_out_of_range_in_the_definition_are_counted_and_not_checked() -> None:
    truth = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    sound = expected(truth, 1e-7)
    narrow = replace(sound, in_range=np.array([[True, False], [True, True]]))
    got = truth.clone()
    got[0, 1] = math.nan
    assert compared(got, sound).nonfinite == 1
    found = compared(got, narrow)
    assert (found.nonfinite, found.unjudged, found.whole.ratio, found.worst_tile.ratio) == (0, 1, 0.0, 0.0)
    got[1, 1] = math.nan
    assert compared(got, narrow).nonfinite == 1


def test_a_truth_that_rounding_may_make_infinite_is_not_checked() -> None:
    truth = torch.tensor([65501.4, 60000.0, 1.0], dtype=torch.float64)
    got = torch.tensor([math.inf, 60000.0, 1.0], dtype=torch.float16)
    close = compared(got, expected(truth, 10.0))
    assert (close.nonfinite, close.unjudged, close.whole.ratio < 1) == (0, 1, True)
    got[1] = math.inf
    assert compared(got, expected(truth, 10.0)).nonfinite == 1
