"""8-bit floats: their bytes, the conversions of each GPU, and products of them."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import math
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from harness import catalogue
from harness.engines.virtual.numbers.elements import decode, encode, rounded
from tests.engines.conftest import Gpu, MakeGpu

TYPES = {"f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2}
OF_AMD = {"f8E4M3FNUZ": torch.float8_e4m3fnuz, "f8E5M2FNUZ": torch.float8_e5m2fnuz}


@pytest.mark.parametrize("element", [*TYPES, *OF_AMD])
def test_bytes_have_the_values_of_torch(element: str) -> None:
    raw = np.arange(256, dtype=np.uint8)
    expected = torch.from_numpy(raw).view({**TYPES, **OF_AMD}[element]).float().numpy()
    with np.errstate(all="ignore"):
        values, again = decode(raw, element), encode(expected, element)
    assert np.array_equal(values, expected, equal_nan=True)
    number = ~np.isnan(expected)
    assert np.array_equal(again[number], raw[number])
    assert set(again[~number].tolist()) == {0x7F if element in TYPES else 0x80}


@pytest.mark.parametrize(
    ("element", "largest"),
    [("f8E4M3FN", 448.0), ("f8E5M2", 57_344.0), ("f8E4M3FNUZ", 240.0), ("f8E5M2FNUZ", 57_344.0)],
)
def test_rounding_goes_to_the_nearest_and_saturates(element: str, largest: float) -> None:
    values = torch.cat((torch.randn(4000), torch.randn(4000) * 1e-3, torch.randn(4000) * 100, torch.tensor([2.5, 3.5])))
    expected = values.clamp(-largest, largest).to({**TYPES, **OF_AMD}[element]).float()
    assert np.array_equal(rounded(values.numpy(), element), expected.numpy())
    extremes = np.array([np.inf, -np.inf, 1e30, -1e30, np.nan, -0.0], np.float32)
    assert np.array_equal(
        rounded(extremes, element), [largest, -largest, largest, -largest, np.nan, 0.0], equal_nan=True
    )


@triton.jit
def convert_on_amd_kernel(x, e4, e5, ocp, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    tl.store(e4 + at, value.to(tl.float8e4b8))
    tl.store(e5 + at, value.to(tl.float8e5b16))
    tl.store(ocp + at, value.to(tl.float8e4nv))


def test_formats_of_amd_saturate_and_have_no_negative_zero(make_gpu: MakeGpu) -> None:
    make_gpu(catalogue.find("mi300x"))
    x = torch.tensor([300.0, -300.0, -1e-9, 2.5, 1e6, -1e6, math.nan, 448.0])
    e4, e5 = torch.zeros(8, dtype=torch.float8_e4m3fnuz), torch.zeros(8, dtype=torch.float8_e5m2fnuz)
    ocp = torch.zeros(8, dtype=torch.float8_e4m3fn)
    convert_on_amd_kernel[(1,)](x, e4, e5, ocp, 8)
    assert str(e4.float().tolist()) == "[240.0, -240.0, 0.0, 2.5, 240.0, -240.0, nan, 240.0]"
    assert str(e5.float().tolist()) == "[320.0, -320.0, 0.0, 2.5, 57344.0, -57344.0, nan, 448.0]"
    assert str(ocp.float().tolist()) == "[288.0, -288.0, -0.0, 2.5, 448.0, -448.0, nan, 448.0]"


@triton.jit
def convert_kernel(x, e4, e5, e5_cut, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    tl.store(e4 + at, value.to(tl.float8e4nv))
    tl.store(e5 + at, value.to(tl.float8e5))
    tl.store(e5_cut + at, value.to(tl.float8e5, fp_downcast_rounding="rtz"))


def converted_from(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    e4 = torch.zeros(len(x), dtype=torch.float8_e4m3fn)
    e5, cut = torch.zeros(len(x), dtype=torch.float8_e5m2), torch.zeros(len(x), dtype=torch.float8_e5m2)
    convert_kernel[(1,)](x, e4, e5, cut, len(x))
    return e4.float(), e5.float(), cut.float()


def test_float32_becomes_8_bit_floats_as_on_an_h200(make_gpu: MakeGpu) -> None:
    x = torch.tensor([1.0625, 1.0624, 1.0626, 500.0, -1e6, 2.0**-9, 2.0**-10, 0.2])
    make_gpu((9, 0))
    e4, e5, cut = converted_from(x)
    assert e4.tolist() == [1.0, 1.0, 1.125, 448.0, -448.0, 2.0**-9, 0.0, 0.203125]
    assert e5.tolist() == [1.0, 1.0, 1.0, 512.0, -57344.0, 2.0**-9, 2.0**-10, 0.1875]
    assert cut.tolist() == [1.0, 1.0, 1.0, 448.0, -57344.0, 2.0**-9, 2.0**-10, 0.1875]


@triton.jit
def narrow_on_8_0_kernel(x, e5, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(e5 + at, tl.load(x + at).to(tl.float8e5))


@triton.jit
def narrow_on_8_9_kernel(x, e5, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(e5 + at, tl.load(x + at).to(tl.float8e5))


@pytest.mark.parametrize(
    ("kernel", "capability", "expected"),
    [
        (narrow_on_8_0_kernel, (8, 0), [1.25, 1.0, float("inf"), -0.0]),
        (narrow_on_8_9_kernel, (8, 9), [1.0, 1.0, 57344.0, float("nan")]),
    ],
)
def test_before_compute_capability_9_float32_goes_through_float16(
    make_gpu: MakeGpu, kernel: Any, capability: tuple[int, int], expected: list[float]
) -> None:
    make_gpu(capability)
    x = torch.tensor([1.125 + 2.0**-14, 1.0625, 70_000.0, float("nan")])
    converted = torch.zeros(4, dtype=torch.float8_e5m2)
    kernel[(1,)](x, converted, 4)
    np.testing.assert_array_equal(converted.float().numpy(), np.array(expected, np.float32))


@triton.jit
def narrow_bfloat16_kernel(x, e5, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(e5 + at, tl.load(x + at).to(tl.float8e5))


def test_overflowing_bfloat16_wraps_around_before_compute_capability_8_9(make_gpu: MakeGpu) -> None:
    make_gpu((8, 6))
    x = torch.tensor([1.125, -1.0, 1e9, 0.0], dtype=torch.bfloat16)
    converted = torch.zeros(4, dtype=torch.float8_e5m2)
    narrow_bfloat16_kernel[(1,)](x, converted, 4)
    assert converted.float().tolist() == [1.25, -1.0, -0.21875, 0.0]


@triton.jit
def widen_kernel(e4, e5, out, N: tl.constexpr):
    at = tl.arange(0, N)
    small, large = tl.load(e4 + at), tl.load(e5 + at)
    tl.store(out + at, small.to(tl.float32))
    tl.store(out + N + at, large.to(tl.float32))
    tl.store(out + 2 * N + at, small.to(tl.bfloat16).to(tl.float32))
    tl.store(out + 3 * N + at, large.to(tl.bfloat16).to(tl.float32))
    tl.store(out + 4 * N + at, small.to(tl.uint8, bitcast=True).to(tl.float32))
    tl.store(out + 5 * N + at, large.to(tl.float16).to(tl.float32))


def test_8_bit_floats_widen_exactly_and_to_bfloat16_without_infinities(gpu: Gpu) -> None:
    raw = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    e4, e5 = raw.view(torch.float8_e4m3fn), raw.view(torch.float8_e5m2)
    out = torch.zeros(6, 256)
    widen_kernel[(1,)](e4, e5, out, 256)
    for row, expected in ((0, e4.float()), (1, e5.float()), (2, e4.float()), (5, e5.float())):
        assert torch.equal(out[row].nan_to_num(-1.5), expected.nan_to_num(-1.5)), row
    finite = e5.float().isfinite()
    assert torch.equal(out[3][finite], e5.float()[finite])
    assert out[3][~finite].tolist() == [sign * number for sign in (1, -1) for number in (65536, 81920, 98304, 114688)]
    assert torch.equal(out[4][:0x7F], raw[:0x7F].float())
    assert gpu.memory == []


@triton.jit
def cut_kernel(x, half, bfloat, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    tl.store(half + at, value.to(tl.float16, fp_downcast_rounding="rtz"))
    tl.store(bfloat + at, value.to(tl.bfloat16, fp_downcast_rounding="rtz"))


def test_rounding_toward_zero_never_grows(gpu: Gpu) -> None:
    """The expected numbers are those of an H200."""
    del gpu
    x = torch.tensor([65519.9, 65520.0, 1e6, 300.7, -300.7, float("inf"), 127.9, 1 + 2.0**-9])
    half, bfloat = torch.zeros(8, dtype=torch.float16), torch.zeros(8, dtype=torch.bfloat16)
    cut_kernel[(1,)](x, half, bfloat, 8)
    assert half.tolist() == [65504.0, 65504.0, 65504.0, 300.5, -300.5, float("inf"), 127.875, 1.001953125]
    assert bfloat.tolist() == [65280.0, 65280.0, 999424.0, 300.0, -300.0, float("inf"), 127.5, 1.0]


@triton.jit
def dot_kernel(x, y, out, M: tl.constexpr):
    at = tl.arange(0, M)[:, None] * M + tl.arange(0, M)[None, :]
    tl.store(out + at, tl.dot(tl.load(x + at), tl.load(y + at), max_num_imprecise_acc=0))


def test_products_of_8_bit_floats_are_summed_in_float32(gpu: Gpu) -> None:
    x, y = torch.randn(32, 32).to(torch.float8_e4m3fn), torch.randn(32, 32).to(torch.float8_e5m2)
    out = torch.zeros(32, 32)
    dot_kernel[(1,)](x, y, out, 32)
    torch.testing.assert_close(out, x.float() @ y.float())
    assert gpu.memory == []


@triton.jit
def absolute_kernel(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.abs(tl.load(x + at)))


@pytest.mark.parametrize("element", TYPES)
def test_the_absolute_value_of_8_bit_floats_clears_the_sign(gpu: Gpu, element: str) -> None:
    x = torch.arange(256, dtype=torch.uint8).view(TYPES[element])
    y = torch.zeros_like(x)
    absolute_kernel[(1,)](x, y, 256)
    assert torch.equal(y.float().nan_to_num(-1), x.float().abs().nan_to_num(-1))
    assert gpu.memory == []
