"""The difference of two results of one launch, and the error on a machine without a GPU."""

import math
from ctypes.util import find_library

import pytest
import torch

from harness.engines.comparison.differences import compare, distance, doubt, roundings, sums_in_any_order
from harness.engines.comparison.rounding_spread import RoundingSpread
from harness.engines.cuda.memory.driver_memory import DeviceMemory
from harness.errors import MissingPart
from harness.model.launch_difference import Difference


def difference(ours: torch.Tensor, theirs: torch.Tensor) -> Difference:
    return compare("kernel", "y", ours, theirs)


def test_equal_bits_and_two_nans_are_no_difference() -> None:
    values = torch.tensor([1.0, -0.0, math.nan, math.inf])
    other = values.clone()
    other.view(torch.int32)[2] ^= 1
    found = difference(values, other)
    assert (found.elements, found.differing, found.ulps, found.scaled) == (4, 0, 0.0, 0.0)


def test_distances_are_in_ulps_and_relative_to_the_largest_element() -> None:
    ours = torch.tensor([8.0, 1.0, 2.0])
    theirs = torch.tensor([8.0, 1.0 + 3 * 2**-23, 2.0])
    found = difference(ours, theirs)
    assert (found.differing, found.ulps, found.scaled) == (1, 3.0, 3 * 2**-23 / 8)
    narrow = difference(ours.to(torch.bfloat16), torch.tensor([8.0, 1.0, 2.0 + 2**-6]).to(torch.bfloat16))
    assert (narrow.dtype, narrow.differing, narrow.ulps) == ("bfloat16", 1, 1.0)


def test_zeros_of_different_signs_have_no_distance() -> None:
    found = difference(torch.tensor([0.0, 0.0]), torch.tensor([0.0, -0.0]))
    assert (found.differing, found.ulps, found.scaled, found.is_explained) == (1, 0.0, 0.0, True)
    assert difference(torch.tensor([0.0]), torch.tensor([1.0])).scaled == math.inf


def test_one_nan_or_a_different_integer_is_infinitely_far() -> None:
    assert difference(torch.tensor([1.0, 2.0]), torch.tensor([1.0, math.nan])).ulps == math.inf
    assert difference(torch.tensor([1, 2]), torch.tensor([1, 3])).ulps == math.inf


@pytest.mark.skipif(find_library("cuda") is not None, reason="this machine has NVIDIA's driver")
def test_a_missing_driver_is_reported() -> None:
    with pytest.raises(MissingPart, match=r"libcuda.so.1 is not there: .* needs a machine with NVIDIA's driver"):
        DeviceMemory()


def test_the_types_to_which_a_kernel_rounds_are_found() -> None:
    assert roundings(module("%2 = arith.addf %0, %0 : tensor<16x16xf32>")) == ()
    narrow = "%2 = arith.truncf %0 : tensor<16x16xf32> to tensor<16x16xbf16>"
    product = (
        "%3 = tt.dot %0, %0, %0, inputPrecision = tf32 : tensor<16x16xf32> * tensor<16x16xf32> -> tensor<16x16xf32>"
    )
    assert roundings(module(narrow, product)) == ("bfloat16", "tf32")


def module(*operations: str) -> str:
    zero = "%0 = arith.constant dense<0.000000e+00> : tensor<16x16xf32>"
    body = "\n".join(f"    {line} loc(#loc)" for line in (zero, *operations, "tt.return"))
    function = f"  tt.func public @k() attributes {{noinline = false}} {{\n{body}\n  }} loc(#loc)"
    return f"#loc = loc(unknown)\nmodule {{\n{function}\n}} loc(#loc)\n"


def doubt_of(ours: list[float], theirs: list[float], *repetitions: list[float], in_any_order: bool = False) -> float:
    virtual, other = torch.tensor(ours), torch.tensor(theirs)
    spread = RoundingSpread.none_around(virtual)
    for repetition in repetitions:
        spread = spread.including(distance(virtual.double(), torch.tensor(repetition).double()))
    return doubt(difference(virtual, other), virtual, other, spread, in_any_order=in_any_order)


def test_rounding_explains_what_repetitions_do() -> None:
    assert doubt_of([1.0, 2.0], [1.5, 2.0], [1.1, 2.0], [0.9, 2.0]) < 1
    assert doubt_of([1.0, 2.0], [1.0, 2.5], [1.1, 2.0], [0.9, 2.0]) > 1000


def test_where_repetitions_differ_more_from_each_other_no_digit_is_left() -> None:
    chaotic = [[1.0, 900.0], [-50.0, 2.5], [1e6, 2.0]]
    assert doubt_of([1.0, 2.0], [3e4, 700.0], *chaotic) < 1
    assert doubt_of([1.0, 2.0], [3e4, 700.0], *chaotic[:2]) < 1
    assert doubt_of([1.0, 2.0, 3.0], [1.0, 2.0, math.nan], [1.1, 2.0, 3.0], [0.9, 2.0, 3.0]) == math.inf


def test_an_integer_may_differ_as_far_as_rounding_moves_it() -> None:
    ours, theirs = torch.tensor([3, 8]), torch.tensor([4, 8])
    found = difference(ours, theirs)
    still = RoundingSpread.none_around(ours)
    moved = still.including(torch.tensor([1.0, 0.0], dtype=torch.float64))
    assert doubt(found, ours, theirs, still) == math.inf
    assert doubt(found, ours, theirs, moved) == 0
    assert doubt(difference(ours, torch.tensor([5, 8])), ours, torch.tensor([5, 8]), moved) == math.inf


def test_rounding_errors_of_subnormal_numbers_get_no_smaller() -> None:
    smallest = 2.0**-149
    assert doubt_of([smallest, 0.0], [2 * smallest, smallest]) < 1


def test_the_order_of_sums_decides_between_infinity_and_nan() -> None:
    assert doubt_of([math.nan, 1.0], [math.inf, 1.0]) == math.inf
    assert doubt_of([math.nan, 1.0], [math.inf, 1.0], in_any_order=True) == 0
    assert doubt_of([math.nan, 1.0], [5.0, 1.0], in_any_order=True) == math.inf


@pytest.mark.parametrize(("step", "expected"), [("arith.addf", True), ("arith.maximumf", False)])
def test_sums_and_products_have_any_order(step: str, *, expected: bool) -> None:
    reduced = (
        '%1 = "tt.reduce"(%0) <{axis = 0 : i32}> ({\n^bb0(%a: f32, %b: f32):\n'
        f"  %c = {step} %a, %b : f32\n  tt.reduce.return %c : f32\n}}) : (tensor<16x16xf32>) -> tensor<16xf32>"
    )
    assert sums_in_any_order(module(reduced)) is expected
