"""Arithmetic as on the GPU: integers wrap, narrow floats round after every operation, conversions follow PTX."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import math

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from harness.engines.virtual.native.native_code import ExecutorMode, NativeCode
from tests.engines.conftest import Gpu
from tests.engines.virtual.conversions import outputs, to_integers_kernel

N = 512


@triton.jit
def integer_kernel(x, y, out, N: tl.constexpr):
    at = tl.arange(0, N)
    a = tl.load(x + at)
    b = tl.load(y + at)
    divisor = tl.where(b == 0, 1, b)
    tl.store(out + 0 * N + at, a + b)
    tl.store(out + 1 * N + at, a - b)
    tl.store(out + 2 * N + at, a * b)
    tl.store(out + 3 * N + at, a // divisor)
    tl.store(out + 4 * N + at, a % divisor)
    tl.store(out + 5 * N + at, a << (b & 7))
    tl.store(out + 6 * N + at, a >> (b & 7))
    tl.store(out + 7 * N + at, a & b)
    tl.store(out + 8 * N + at, a | b)
    tl.store(out + 9 * N + at, a ^ b)
    tl.store(out + 10 * N + at, tl.minimum(a, b))
    tl.store(out + 11 * N + at, tl.maximum(a, b))
    tl.store(out + 12 * N + at, (a < b).to(x.dtype.element_ty))
    tl.store(out + 13 * N + at, ~a)
    tl.store(out + 14 * N + at, -a)


def truncated_division(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    quotients = [abs(int(p)) // abs(int(q)) * (1 if (p < 0) == (q < 0) else -1) for p, q in zip(a, b, strict=True)]
    remainders = [int(p) - q * int(d) for p, q, d in zip(a, quotients, b, strict=True)]
    return np.array(quotients, object), np.array(remainders, object)


def wrapped(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    bits = dtype.itemsize * 8
    plain = [int(value) % (1 << bits) for value in values]
    return np.array(plain, f"u{dtype.itemsize}").view(dtype)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint32])
def test_integers_wrap_and_divide_toward_zero(gpu: Gpu, dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    generator = np.random.default_rng(0)
    kind = np.dtype(str(dtype).removeprefix("torch."))
    edges = np.array([info.min, info.min + 1, info.max, info.max - 1, 0, 1, 7, 2, 3], kind)
    x = generator.integers(info.min, info.max, N, kind, endpoint=True)
    y = generator.integers(info.min, info.max, N, kind, endpoint=True)
    x[:81], y[:81] = np.repeat(edges, 9), np.tile(edges, 9)
    x[81:200] = generator.integers(0 if info.min == 0 else -9, 9, 119)
    y[81:200] = generator.integers(0 if info.min == 0 else -4, 4, 119)
    out = torch.zeros(15, N, dtype=dtype)
    integer_kernel[(1,)](torch.from_numpy(x), torch.from_numpy(y), out, N)
    a, b = x.astype(object), y.astype(object)
    divisor = np.where(y == 0, 1, b)
    quotients, remainders = truncated_division(a, divisor)
    expected = [
        a + b, a - b, a * b, quotients, remainders,
        a * 2 ** (b & 7), a >> (b & 7), a & b, a | b, a ^ b,
        np.minimum(a, b), np.maximum(a, b), (x < y).astype(int), ~a, -a,
    ]  # fmt: skip
    for row, want in enumerate(expected):
        np.testing.assert_array_equal(out[row].numpy(), wrapped(want, kind), f"row {row}")
    assert gpu.memory == []


@triton.jit
def bool_kernel(x, y, out, N: tl.constexpr):
    at = tl.arange(0, N)
    a = tl.load(x + at)
    b = tl.load(y + at)
    tl.store(out + 0 * N + at, (a & b).to(tl.int32))
    tl.store(out + 1 * N + at, (a | b).to(tl.int32))
    tl.store(out + 2 * N + at, (a ^ b).to(tl.int32))
    tl.store(out + 3 * N + at, (~a).to(tl.int32))
    tl.store(out + 4 * N + at, (a.to(tl.float32) * 3).to(tl.int32))
    tl.store(out + 5 * N + at, tl.load(out + 6 * N + at).to(tl.int1).to(tl.int32))
    tl.store(out + 7 * N + at, tl.sum(a.to(tl.int32)) + at * 0)


def test_booleans_are_zero_and_one(gpu: Gpu) -> None:
    x = torch.tensor([False, False, True, True])
    y = torch.tensor([False, True, False, True])
    out = torch.zeros(8, 4, dtype=torch.int32)
    out[6] = torch.tensor([0, 2, -1, 256])
    bool_kernel[(1,)](x, y, out, 4)
    a, b = x.int(), y.int()
    expected = torch.stack([a & b, a | b, a ^ b, 1 - a, a * 3, (out[6] != 0).int(), out[6], torch.full((4,), 2)])
    assert out.tolist() == expected.tolist()
    assert gpu.memory == []


@triton.jit
def float_kernel(x, y, out, N: tl.constexpr):
    at = tl.arange(0, N)
    a = tl.load(x + at)
    b = tl.load(y + at)
    tl.store(out + 0 * N + at, a + b)
    tl.store(out + 1 * N + at, a - b)
    tl.store(out + 2 * N + at, a * b)
    tl.store(out + 3 * N + at, (a / b).to(out.dtype.element_ty))
    tl.store(out + 4 * N + at, 0 - a)
    tl.store(out + 5 * N + at, a.to(tl.float32).to(out.dtype.element_ty))
    tl.store(out + 6 * N + at, (a.to(tl.float32) * 1.001).to(out.dtype.element_ty))
    tl.store(out + 7 * N + at, a * b + a)


def odd_floats(dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Random bits, small integers and halves that make ties, infinities, NaN and the limits of the type."""
    generator = torch.Generator().manual_seed(seed)
    bits = torch.randint(-(1 << 15), 1 << 15, (N,), generator=generator, dtype=torch.int16)
    values = bits.view(dtype) if dtype is not torch.float32 else torch.randn(N, generator=generator)
    values = values.clone()
    values[:128] = torch.randint(-600, 600, (128,), generator=generator).to(dtype) / 2
    info = torch.finfo(dtype)
    edges = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), info.max, info.min, info.tiny, info.tiny / 4]
    values[128:137] = torch.tensor(edges, dtype=dtype)
    return values[torch.randperm(N, generator=generator)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_floats_equal_those_of_torch_bit_for_bit(gpu: Gpu, dtype: torch.dtype) -> None:
    x, y = odd_floats(dtype, 1), odd_floats(dtype, 2)
    out = torch.zeros(8, N, dtype=dtype)
    float_kernel[(1,)](x, y, out, N)
    wide = x.float()
    expected = [x + y, x - y, x * y, (wide / y.float()).to(dtype), 0 - x, x, (wide * 1.001).to(dtype), (x * y) + x]
    for row, want in enumerate(expected):
        got = out[row]
        same = (got.view(torch.uint8).view(N, -1) == want.view(torch.uint8).view(N, -1)).all(1)
        assert bool((same | (got.isnan() & want.isnan())).all()), (row, x[~same], y[~same], got[~same], want[~same])
    assert gpu.memory == []


@pytest.mark.alone("LLVM leaves conversions of numbers out of range undefined")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_floats_convert_to_integers_toward_zero_and_saturate(gpu: Gpu, dtype: torch.dtype) -> None:
    inf, nan = float("inf"), float("nan")
    numbers = [0.0, 1.9, -1.9, 2.5, 255.9, 300.0, -300.0, 128.0, 3e9, -3e9, 4e4, -4e4, inf, -inf, nan, -0.99]
    x = torch.tensor(numbers).to(dtype)
    outs = outputs(16)
    to_integers_kernel[(1,)](x, *outs, 16)
    for out in outs:
        expected = [as_cvt_does(value, out.dtype, is_double=dtype is torch.float64) for value in x.tolist()]
        assert out.tolist() == expected, out.dtype
    assert gpu.memory == []


def as_cvt_does(value: float, dtype: torch.dtype, *, is_double: bool) -> int:
    """The result by the PTX ISA; for one byte, the lower byte of the 16-bit result, as in Triton's code."""
    info = torch.iinfo(torch.int16 if dtype is torch.int8 else torch.uint16 if dtype is torch.uint8 else dtype)
    if math.isnan(value):
        result = 1 << info.bits - 1 if is_double or info.bits == 64 else 0
    else:
        result = int(max(info.min, min(info.max, int(max(-1e35, min(1e35, value))))))
    limits = torch.iinfo(dtype)
    return (result - limits.min) % (1 << limits.bits) + limits.min


AMD_KERNEL = triton.JITFunction(to_integers_kernel.fn)


@pytest.mark.alone("the GPU is AMD's")
@pytest.mark.parametrize("executor", [ExecutorMode.NUMPY, ExecutorMode.NATIVE])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_narrow_integers_are_parts_of_wider_ones_on_an_amd_gpu(
    amd_gpu: Gpu, dtype: torch.dtype, executor: ExecutorMode
) -> None:
    numbers = [0.0, 1.9, -1.9, -127.0, 255.9, 300.0, -300.0, 3e4, -3e4, math.nan, -0.99]
    large = [4e4, -4e4, 7e4, 3e9, -3e9] if dtype is not torch.float16 else [0.0] * 5
    x = torch.tensor(numbers + large).to(dtype)
    outs = outputs(16)
    amd_gpu.launches.native = NativeCode(executor, None)
    AMD_KERNEL[(1,)](x, *outs, 16)
    for out in outs:
        if out.dtype.itemsize < 8:  # emulated by several instructions
            assert out.tolist() == [as_amd_does(value, out.dtype) for value in x.tolist()], out.dtype


def as_amd_does(value: float, target: torch.dtype) -> int:
    """The lower bits of what v_cvt_i32_f32 returns, or v_cvt_u32_f32."""
    limits = torch.iinfo(target)
    info = torch.iinfo(torch.int32 if limits.min or limits.bits == 8 else torch.uint32)
    result = 0 if math.isnan(value) else int(max(info.min, min(info.max, value)))
    return (result - limits.min) % (1 << limits.bits) + limits.min


@triton.jit
def from_integer_kernel(x, f32, f16, bf16, f64, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    tl.store(f32 + at, value.to(tl.float32))
    tl.store(f16 + at, value.to(tl.float16))
    tl.store(bf16 + at, value.to(tl.bfloat16))
    tl.store(f64 + at, value.to(tl.float64))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8, torch.bool])
def test_integers_convert_to_the_nearest_floats(gpu: Gpu, dtype: torch.dtype) -> None:
    x = torch.randint(-(1 << 31), 1 << 31, (64,)).to(dtype)
    x[:32] = torch.randint(0, 3000, (32,)).to(dtype)
    outs = [torch.zeros(64, dtype=kind) for kind in (torch.float32, torch.float16, torch.bfloat16, torch.float64)]
    from_integer_kernel[(1,)](x, *outs, 64)
    for out in outs:
        assert out.tolist() == x.to(torch.float32 if out.dtype is torch.bfloat16 else out.dtype).to(out.dtype).tolist()
    assert gpu.memory == []


@triton.jit
def narrow_kernel(x, f32, f16, bf16, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    tl.store(f32 + at, value.to(tl.float32))
    tl.store(f16 + at, value.to(tl.float16))
    tl.store(bf16 + at, value.to(tl.bfloat16))


def test_float64_is_rounded_once_to_a_narrower_type(gpu: Gpu) -> None:
    base = torch.randn(64, dtype=torch.float64)
    tie = base.to(torch.bfloat16).double() * (1 + 2.0**-9)
    x = torch.cat([base, tie, tie * (1 + 2.0**-45), tie * (1 - 2.0**-45)])
    outs = [torch.zeros(256, dtype=kind) for kind in (torch.float32, torch.float16, torch.bfloat16)]
    narrow_kernel[(1,)](x, *outs, 256)
    assert outs[0].tolist() == x.to(torch.float32).tolist()
    assert outs[1].tolist() == torch.from_numpy(x.numpy().astype(np.float16)).tolist()
    spacing = 2.0 ** (np.floor(np.log2(np.abs(x.numpy()))) - 7)
    assert outs[2].tolist() == (np.rint(x.numpy() / spacing) * spacing).tolist()
    assert gpu.memory == []


@triton.jit
def mathematics_kernel(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    a = tl.load(x + at)
    tl.store(out + 0 * N + at, tl.exp(a))
    tl.store(out + 1 * N + at, tl.exp2(a))
    tl.store(out + 2 * N + at, tl.log(tl.abs(a)))
    tl.store(out + 3 * N + at, tl.log2(tl.abs(a)))
    tl.store(out + 4 * N + at, tl.sqrt(tl.abs(a)))
    tl.store(out + 5 * N + at, tl.rsqrt(tl.abs(a)))
    tl.store(out + 6 * N + at, tl.sin(a))
    tl.store(out + 7 * N + at, tl.cos(a))
    tl.store(out + 8 * N + at, tl.erf(a))
    tl.store(out + 9 * N + at, tl.floor(a))
    tl.store(out + 10 * N + at, tl.ceil(a))
    tl.store(out + 11 * N + at, tl.sigmoid(a))
    tl.store(out + 12 * N + at, tl.fma(a, a, a))
    tl.store(out + 13 * N + at, tl.clamp(a, -0.5, 0.5))
    tl.store(out + 14 * N + at, tl.div_rn(a, 3.0))
    tl.store(out + 15 * N + at, tl.sqrt_rn(tl.abs(a)))


def test_mathematics_is_within_two_ulps_of_float64(gpu: Gpu) -> None:
    x = torch.randn(N) * 3
    out = torch.zeros(16, N)
    mathematics_kernel[(1,)](x, out, N)
    a = x.double()
    size = a.abs()
    expected = [
        a.exp(), a.exp2(), size.log(), size.log2(), size.sqrt(), size.rsqrt(), a.sin(), a.cos(),
        a.erf(), a.floor(), a.ceil(), a.sigmoid(), a * a + a, a.clamp(-0.5, 0.5), a / 3, size.sqrt(),
    ]  # fmt: skip
    error = (out.double() - torch.stack(expected)).abs() / torch.stack(expected).abs().clamp(min=1e-6)
    assert float(error.max()) < 2 * torch.finfo(torch.float32).eps, error.amax(1)
    assert gpu.memory == []


@triton.jit
def subnormal_kernel(x, below, out, N: tl.constexpr):
    at = tl.arange(0, N)
    a = tl.load(x + at)
    size = tl.abs(a)
    tl.store(out + 0 * N + at, tl.exp2(tl.load(below + at)))
    tl.store(out + 1 * N + at, tl.sqrt(size))
    tl.store(out + 2 * N + at, tl.rsqrt(size))
    tl.store(out + 3 * N + at, tl.sin(a))
    tl.store(out + 4 * N + at, tl.erf(a))
    tl.store(out + 5 * N + at, tl.floor(a))
    tl.store(out + 6 * N + at, tl.ceil(a))
    tl.store(out + 7 * N + at, tl.exp(tl.load(below + at) * 0.7))
    tl.store(out + 8 * N + at, tl.log(size))
    tl.store(out + 9 * N + at, tl.log2(size))
    tl.store(out + 10 * N + at, tl.sqrt_rn(size.to(tl.float32)))


def subnormal() -> tuple[torch.Tensor, torch.Tensor]:
    """Subnormal numbers of both signs, and exponents whose powers of two are subnormal."""
    sizes = torch.linspace(2, 1 << 22, 64).round() * 2.0**-149
    return sizes * torch.tensor([1.0, -1.0]).repeat(32), torch.linspace(-148.0, -127.0, 64)


def test_only_operations_that_triton_builds_with_ftz_flush_subnormal_numbers(gpu: Gpu) -> None:
    x, below = subnormal()
    out = torch.zeros(11, 64)
    subnormal_kernel[(1,)](x, below, out, 64)
    zeros, signed = torch.zeros(64), torch.zeros(64).copysign(x)
    flushing = torch.stack([zeros, zeros, torch.full((64,), float("inf")), signed, signed, signed, signed])
    assert out[:7].view(torch.int32).tolist() == flushing.view(torch.int32).tolist()
    size = x.abs().double()
    keeping = torch.stack([(below * 0.7).double().exp(), size.log(), size.log2(), size.sqrt()])
    assert torch.allclose(out[7:].double(), keeping, rtol=1e-6, atol=2.0**-149)
    assert gpu.memory == []


def test_float64_keeps_its_subnormal_numbers(gpu: Gpu) -> None:
    x, below = (one.double() for one in subnormal())
    out = torch.zeros(11, 64, dtype=torch.float64)
    subnormal_kernel[(1,)](x, below, out, 64)
    expected = torch.stack([below.exp2(), x.abs().sqrt(), x.abs().rsqrt(), x.sin(), x.erf(), x.floor(), x.ceil()])
    assert torch.allclose(out[:7], expected, rtol=1e-12, atol=0)
    assert gpu.memory == []
