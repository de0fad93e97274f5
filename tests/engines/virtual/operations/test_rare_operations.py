"""Operations that few kernels use, as `triton.language` emits them."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0124, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false

import math

import pytest
import torch
import triton
import triton.language as tl

from tests.engines.conftest import Gpu


@triton.jit
def integer_kernel(x, narrow, size, high, first, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    tl.store(narrow + at, value.to(tl.int8))
    tl.store(size + at, tl.abs(value))
    tl.debug_barrier()
    tl.store(high + at, tl.umulhi(value.to(tl.uint32), 0x9E3779B9).to(tl.int32))
    tl.assume(N > 1)
    before = tl.load(first)
    tl.atomic_cas(first, before, tl.max(value, 0))


def test_rare_integer_operations_equal_those_of_torch(gpu: Gpu) -> None:
    x = torch.tensor([0, 1, -1, 127, 128, -129, 2**31 - 1, 65536], dtype=torch.int32)
    narrow = torch.zeros(8, dtype=torch.int8)
    size, high = torch.zeros(8, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    first = torch.tensor([-5], dtype=torch.int32)
    integer_kernel[(1,)](x, narrow, size, high, first, 8)
    assert narrow.tolist() == [0, 1, -1, 127, -128, 127, -1, 0]
    assert size.tolist() == [abs(value) for value in x.tolist()]
    products = [(value % 2**32) * 0x9E3779B9 >> 32 for value in x.tolist()]
    assert [value % 2**32 for value in high.tolist()] == products
    assert first.item() == 2**31 - 1
    assert gpu.memory == []


@triton.jit
def swapping_kernel(cells, expected, found, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(found + at, tl.atomic_cas(cells + at, tl.load(expected + at), tl.full((N,), 5, found.dtype.element_ty)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_a_compare_and_swap_of_floats_compares_their_bits(gpu: Gpu, dtype: torch.dtype) -> None:
    nan = math.nan
    cells = torch.tensor([-0.0, 0.0, nan, 1.5, nan, 2.0, -0.0, 7.0], dtype=dtype)
    expected = torch.tensor([0.0, 0.0, nan, 1.5, 1.0, 3.0, -0.0, nan], dtype=dtype)
    found, before = torch.zeros(8, dtype=dtype), cells.clone()
    swapping_kernel[(1,)](cells, expected, found, 8)
    after = torch.tensor([-0.0, 5.0, 5.0, 5.0, nan, 2.0, 5.0, 7.0], dtype=dtype)
    for actual, expected_bits in ((found, before), (cells, after)):
        assert actual.view(torch.uint8).tolist() == expected_bits.view(torch.uint8).tolist()
    assert gpu.memory == []


@triton.jit
def locking_kernel(total, lock):
    free, taken = tl.full((1,), 0, tl.int32).item(), tl.full((1,), 1, tl.int32).item()
    while tl.atomic_cas(lock, free, taken) == 1:
        pass
    tl.store(total, tl.load(total) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, free)


def test_the_only_element_of_a_block_is_a_scalar_of_an_atomic(gpu: Gpu) -> None:
    total, lock = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    locking_kernel[(50,)](total, lock)
    assert total.item() == 50
    assert gpu.memory == []


@triton.jit
def scaling_kernel(x, scale, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at) * scale)


def test_a_float_argument_beyond_the_range_of_float32_is_infinite(gpu: Gpu) -> None:
    x, out = torch.tensor([1.0, -2.0]), torch.zeros(2)
    scaling_kernel[(1,)](x, 1e300, out, 2)
    assert out.tolist() == [math.inf, -math.inf]
    assert gpu.memory == []


@triton.jit
def float_kernel(x, y, rest, most, least, whole, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(rest + at, a % b)
    tl.store(most + at, tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL))
    tl.store(least + at, tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL))
    tl.store(whole + at, tl.abs(tl.where(a == a, a, 0.0)).to(tl.uint32).to(tl.int32))


def test_rare_float_operations_equal_those_of_torch(gpu: Gpu) -> None:
    x = torch.tensor([7.5, -7.5, 1.0, math.nan, 3.0, 0.25, 2.5, 100.0])
    y = torch.tensor([2.0, 2.0, 4.0, 1.0, math.nan, 0.5, -2.0, 7.0])
    rest, most, least = torch.zeros(8), torch.zeros(8), torch.zeros(8)
    whole = torch.zeros(8, dtype=torch.int32)
    float_kernel[(1,)](x, y, rest, most, least, whole, 8)
    torch.testing.assert_close(rest, torch.fmod(x, y), equal_nan=True)
    torch.testing.assert_close(most, torch.maximum(x, y), equal_nan=True)
    torch.testing.assert_close(least, torch.minimum(x, y), equal_nan=True)
    assert whole.tolist() == [7, 7, 1, 0, 3, 0, 2, 100]
    assert gpu.memory == []


@triton.jit
def pairs_kernel(x, y, out, aligned, N: tl.constexpr):
    at = tl.arange(0, N)
    pairs = tl.join(tl.load(x + at), tl.load(y + at))
    left, right = tl.split(pairs)
    tl.store(out + at, left - right)
    tl.store(out + N + tl.arange(0, 2 * N), tl.reshape(pairs, (2 * N,)))
    tl.store(aligned, ((x + 3).to(tl.int64) - x.to(tl.int64)).to(tl.int32))


def test_pairs_and_addresses_are_converted_and_back(gpu: Gpu) -> None:
    x, y, out = torch.randn(16), torch.randn(16), torch.zeros(48)
    aligned = torch.zeros(1, dtype=torch.int32)
    pairs_kernel[(1,)](x, y, out, aligned, 16)
    assert torch.equal(out[:16], x - y)
    assert torch.equal(out[16:], torch.stack([x, y], 1).reshape(-1))
    assert aligned.item() == 12
    assert gpu.memory == []
