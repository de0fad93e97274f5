"""The difference of two results of one launch, and the error on a machine without a GPU."""

import math
from ctypes.util import find_library

import pytest
import torch

from harness.engines.comparison.differences import compare, roundings
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
