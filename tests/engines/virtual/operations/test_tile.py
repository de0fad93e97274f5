"""Operations on blocks agree with torch: reductions, scans, products and changes of shape."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from harness.model.case import LaneFill
from tests.engines.conftest import Gpu


@triton.jit
def compose(a_scale, a_shift, b_scale, b_shift):
    return a_scale * b_scale, a_shift * b_scale + b_shift


@triton.jit
def reduce_kernel(x, ints, out, int_out, M: tl.constexpr, N: tl.constexpr):
    pid = tl.program_id(0)
    rows = tl.arange(0, M)
    at = pid * M * N + rows[:, None] * N + tl.arange(0, N)[None, :]
    value = tl.load(x + at)
    number = tl.load(ints + at)
    to = pid * M * 8 + rows
    tl.store(out + to + 0 * M, tl.sum(value, 1))
    tl.store(out + to + 1 * M, tl.max(value, 1))
    tl.store(out + to + 2 * M, tl.min(value, 1))
    tl.store(out + to + 3 * M, tl.sum(tl.sum(value, 0)) + rows * 0.0)
    tl.store(int_out + to + 0 * M, tl.argmax(value, 1))
    tl.store(int_out + to + 1 * M, tl.argmin(value, 1))
    tl.store(int_out + to + 2 * M, tl.sum(number, 1))
    tl.store(int_out + to + 3 * M, tl.xor_sum(number, 1))
    tl.store(int_out + to + 4 * M, tl.max(number, 1))
    tl.store(int_out + to + 5 * M, tl.argmax(number, 1))
    tl.store(int_out + to + 6 * M, tl.min(number, 1))


def test_reductions_equal_those_of_torch(gpu: Gpu) -> None:
    programs, m, n = 3, 4, 32
    x = torch.randn(programs, m, n)
    ints = torch.randint(-3, 3, (programs, m, n), dtype=torch.int32)
    out, int_out = torch.zeros(programs, 8, m), torch.zeros(programs, 8, m, dtype=torch.int32)
    reduce_kernel[(programs,)](x, ints, out, int_out, m, n)
    torch.testing.assert_close(out[:, 0], x.sum(-1))
    assert torch.equal(out[:, 1], x.amax(-1))
    assert torch.equal(out[:, 2], x.amin(-1))
    torch.testing.assert_close(out[:, 3], x.sum((1, 2))[:, None].expand(-1, m))
    folded = ints[..., 0].clone()
    for column in range(1, n):
        folded ^= ints[..., column]
    first_largest = (ints == ints.amax(-1, keepdim=True)).int().argmax(-1)
    expected = [x.argmax(-1), x.argmin(-1), ints.sum(-1), folded, ints.amax(-1), first_largest, ints.amin(-1)]
    for row, want in enumerate(expected):
        assert int_out[:, row].tolist() == want.tolist(), row
    assert gpu.memory == []


@triton.jit
def ordered_reduce_kernel(scales, shifts, out, N: tl.constexpr):
    at = tl.arange(0, N)
    scale, shift = tl.reduce((tl.load(scales + at), tl.load(shifts + at)), 0, compose)
    tl.store(out, scale)
    tl.store(out + 1, shift)


@pytest.mark.alone("Triton does not guarantee an order")
def test_a_reduction_with_a_noncommutative_combine_keeps_the_order(gpu: Gpu) -> None:
    scales = torch.randint(1, 4, (16,), dtype=torch.int64)
    shifts = torch.randint(-5, 5, (16,), dtype=torch.int64)
    out = torch.zeros(2, dtype=torch.int64)
    ordered_reduce_kernel[(1,)](scales, shifts, out, 16)
    scale, shift = 1, 0
    for next_scale, next_shift in zip(scales.tolist(), shifts.tolist(), strict=True):
        scale, shift = scale * next_scale, shift * next_scale + next_shift
    assert out.tolist() == [scale, shift]
    assert gpu.memory == []


@triton.jit
def narrow_sum_kernel(x, out, N: tl.constexpr):
    tl.store(out, tl.reduce(tl.load(x + tl.arange(0, N)), 0, add))


@triton.jit
def add(a, b):
    return a + b


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_narrow_reduction_rounds_at_every_combine(gpu: Gpu, dtype: torch.dtype) -> None:
    x = (torch.randn(16) * 100).to(dtype)
    out = torch.zeros(1, dtype=dtype)
    narrow_sum_kernel[(1,)](x, out, 16)
    while len(x) > 1:
        x = x[::2] + x[1::2]
    assert out.tolist() == x.tolist()
    assert gpu.memory == []


@triton.jit
def scan_kernel(x, scales, shifts, out, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    value = tl.load(x + at)
    tl.store(out + 0 * M * N + at, tl.cumsum(value, 1))
    tl.store(out + 1 * M * N + at, tl.cumsum(value, 0))
    tl.store(out + 2 * M * N + at, tl.cumsum(value, 1, reverse=True))
    tl.store(out + 3 * M * N + at, tl.cumprod(value, 1))
    scale, shift = tl.associative_scan((tl.load(scales + at), tl.load(shifts + at)), 1, compose)
    tl.store(out + 4 * M * N + at, scale)
    tl.store(out + 5 * M * N + at, shift)


def test_scans_equal_those_of_torch(gpu: Gpu) -> None:
    m, n = 4, 16
    x, scales, shifts = (torch.randint(-2, 3, (m, n), dtype=torch.int64) for _ in range(3))
    out = torch.zeros(6, m, n, dtype=torch.int64)
    scan_kernel[(1,)](x, scales, shifts, out, m, n)
    assert torch.equal(out[0], x.cumsum(1))
    assert torch.equal(out[1], x.cumsum(0))
    assert torch.equal(out[2], x.flip(1).cumsum(1).flip(1))
    assert torch.equal(out[3], x.cumprod(1))
    scale, shift = torch.ones(m, dtype=torch.int64), torch.zeros(m, dtype=torch.int64)
    for column in range(n):
        scale, shift = scale * scales[:, column], shift * scales[:, column] + shifts[:, column]
        assert torch.equal(out[4][:, column], scale)
        assert torch.equal(out[5][:, column], shift)
    assert gpu.memory == []


@triton.jit
def dot_kernel(x, y, out, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr):
    m, k, n = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    pid = tl.program_id(0)
    a = tl.load(x + pid * M * K + m[:, None] * K + k[None, :])
    b = tl.load(y + k[:, None] * N + n[None, :])
    before = tl.load(out + pid * M * N + m[:, None] * N + n[None, :])
    made = tl.dot(a, b, acc=before, input_precision=PRECISION, out_dtype=before.dtype)
    tl.store(out + pid * M * N + m[:, None] * N + n[None, :], made)


@pytest.mark.parametrize(
    ("dtype", "precision", "error"),
    [
        (torch.float32, "ieee", 1e-6),
        (torch.float32, "tf32", 2e-3),
        (torch.float32, "tf32x3", 1e-5),
        (torch.bfloat16, "ieee", 1e-6),
        (torch.float16, "ieee", 1e-6),
    ],
)
def test_products_of_floats_have_the_requested_precision(
    gpu: Gpu, dtype: torch.dtype, precision: str, error: float
) -> None:
    x, y, out = torch.randn(2, 16, 32).to(dtype), torch.randn(32, 16).to(dtype), torch.randn(2, 16, 16)
    expected = out.double() + x.double() @ y.double()
    dot_kernel[(2,)](x, y, out, 16, 32, 16, precision)
    worst = float((out.double() - expected).abs().max() / expected.abs().max())
    assert worst < error
    assert (worst > 1e-5) == (precision == "tf32")
    assert gpu.seen[0].dot_precisions == ((precision,) if dtype == torch.float32 else ())
    assert gpu.memory == []


def test_products_of_integers_are_exact(gpu: Gpu) -> None:
    x = torch.randint(-128, 128, (2, 16, 32), dtype=torch.int8)
    y = torch.randint(-128, 128, (32, 16), dtype=torch.int8)
    out = torch.randint(-9, 9, (2, 16, 16), dtype=torch.int32)
    expected = out + x.int() @ y.int()
    dot_kernel[(2,)](x, y, out, 16, 32, 16, "ieee")
    assert torch.equal(out, expected)
    assert gpu.memory == []


MAY_REORDER = tl.constexpr(triton.__version__ < "3.9")
"""Required by `tl.cat` before Triton 3.9."""


@triton.jit
def shape_kernel(x, y, out, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    size: tl.constexpr = M * N
    at = m[:, None] * N + n[None, :]
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(out + 0 * size + n[:, None] * M + m[None, :], tl.trans(a))
    tl.store(out + 1 * size + tl.arange(0, size), tl.reshape(a, (size,)))
    joined = tl.join(a, b)
    pair = tl.arange(0, 2)
    tl.store(out + 2 * size + at[:, :, None] * 2 + pair[None, None, :], joined)
    even, odd = tl.split(tl.reshape(a, (M, N // 2, 2)))
    half = m[:, None] * (N // 2) + tl.arange(0, N // 2)[None, :]
    tl.store(out + 4 * size + half, even)
    tl.store(out + 5 * size + half, odd)
    tl.store(out + 6 * size + tl.arange(0, 2 * N), tl.cat(tl.load(x + n), tl.load(y + n), can_reorder=MAY_REORDER))
    tl.store(out + 7 * size + at, tl.where(a > b, a, b))
    tl.store(out + 8 * size + at, tl.broadcast_to(tl.load(x + n)[None, :], (M, N)))
    tl.store(out + 9 * size + at, tl.permute(tl.reshape(tl.trans(a), (N, M)), (1, 0)))


def test_shape_operations_keep_the_right_elements(gpu: Gpu) -> None:
    m, n = 4, 8
    x, y = torch.randn(m, n), torch.randn(m, n)
    out = torch.zeros(10, m, n)
    shape_kernel[(1,)](x, y, out, m, n)
    flat = out.view(10, -1)
    assert torch.equal(flat[0].view(n, m), x.T)
    assert torch.equal(out[1], x)
    assert torch.equal(flat[2:4].reshape(m, n, 2), torch.stack((x, y), -1))
    assert torch.equal(flat[4, : m * n // 2].view(m, -1), x[:, ::2])
    assert torch.equal(flat[5, : m * n // 2].view(m, -1), x[:, 1::2])
    assert torch.equal(flat[6, : 2 * n], torch.cat((x[0], y[0])))
    assert torch.equal(out[7], torch.maximum(x, y))
    assert torch.equal(out[8], x[:1].expand(m, n))
    assert torch.equal(out[9], x)
    assert gpu.memory == []


@triton.jit
def bitcast_kernel(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    tl.store(out + at, value.to(tl.int32, bitcast=True))
    bytes_of = x.to(tl.pointer_type(tl.uint8), bitcast=True)
    tl.store(out + N + at, tl.load(bytes_of + 4 * at + 3).to(tl.int32))


def test_bits_and_pointers_can_be_cast_to_another_type(gpu: Gpu) -> None:
    x = torch.randn(8)
    out = torch.zeros(2, 8, dtype=torch.int32)
    bitcast_kernel[(1,)](x, out, 8)
    bits = x.view(torch.int32)
    assert torch.equal(out, torch.stack((bits, bits >> 24 & 0xFF)))
    assert gpu.memory == []


@triton.jit
def gather_kernel(x, index, out, M: tl.constexpr, N: tl.constexpr):
    at = tl.program_id(0) * M * N + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    value, where = tl.load(x + at), tl.load(index + at)
    tl.store(out + at, tl.gather(value, where, 1))


def test_a_gather_takes_elements_by_their_index(gpu: Gpu) -> None:
    del gpu
    x, index = torch.randn(3, 4, 8), torch.randint(0, 8, (3, 4, 8), dtype=torch.int32)
    out = torch.empty_like(x)
    gather_kernel[(3,)](x, index, out, 4, 8)
    assert torch.equal(out, torch.gather(x, 2, index.long()))


@pytest.mark.alone("it reads past its own shared memory")
def test_a_gather_with_an_index_out_of_range_gives_undefined_lanes(gpu: Gpu) -> None:
    x, index, out = torch.randn(1, 4, 8), torch.arange(-12, 20, dtype=torch.int32).view(1, 4, 8), torch.zeros(1, 4, 8)
    inside = (index >= 0) & (index < 8)
    taken = torch.gather(x, 2, index.long().clamp(0, 7))
    for fill, held in ((LaneFill.ZERO, 0.0), (LaneFill.ODD, 101.0)):
        gpu.begin(fill)
        gather_kernel[(1,)](x, index, out, 4, 8)
        assert torch.equal(out, torch.where(inside, taken, held))


@triton.jit
def histogram_kernel(x, out, low, N: tl.constexpr, BINS: tl.constexpr):
    value = tl.load(x + tl.program_id(0) * N + tl.arange(0, N))
    to = out + tl.program_id(0) * 2 * BINS + tl.arange(0, BINS)
    tl.store(to, tl.histogram(value, BINS))
    tl.store(to + BINS, tl.histogram(value, BINS, mask=value >= low))


def test_a_histogram_counts_each_programs_own_numbers(gpu: Gpu) -> None:
    del gpu
    x = torch.randint(0, 8, (3, 64), dtype=torch.int32)
    out = torch.empty(3, 2, 8, dtype=torch.int32)
    histogram_kernel[(3,)](x, out, 3, 64, 8)
    for program in range(3):
        counts = torch.bincount(x[program], minlength=8)
        assert out[program, 0].tolist() == counts.tolist()
        assert out[program, 1].tolist() == [0, 0, 0, *counts[3:].tolist()]


@pytest.mark.parametrize("bins", [8, 32, 64])
def test_a_histogram_treats_numbers_outside_as_its_triton_release(gpu: Gpu, bins: int) -> None:
    x = torch.tensor([-1, -bins, bins, bins + 3, -(2**31), 2**31 - 1, 31, 33, 70, *range(7)], dtype=torch.int32)
    out = torch.zeros(1, 2, bins, dtype=torch.int32)
    histogram_kernel[(1,)](x, out, -1, 16, bins)
    for counts, numbers in zip(out[0], (x, x[x >= -1]), strict=True):
        seen = numbers & max(bins, 32) - 1 if triton.__version__ < "3.8" else numbers
        expected = torch.bincount(seen[(seen >= 0) & (seen < bins)], minlength=bins)
        assert counts.tolist() == expected.tolist()
    assert gpu.memory == []


@triton.jit
def libdevice_kernel(x, y, out, N: tl.constexpr):
    at = tl.arange(0, N)
    left, right = tl.load(x + at), tl.load(y + at)
    tl.store(out + at, libdevice.pow(left, right))
    tl.store(out + N + at, libdevice.tanh(right))
    tl.store(out + 2 * N + at, libdevice.round(right))
    tl.store(out + 3 * N + at, libdevice.isnan(right).to(tl.float32))
    tl.store(out + 4 * N + at, libdevice.erfc(right))
    tl.store(out + 5 * N + at, libdevice.fast_expf(right))


def test_libdevice_functions_are_those_of_the_cuda_math_api(gpu: Gpu) -> None:
    del gpu
    x, y = torch.rand(32) + 0.5, torch.randn(32) * 3
    y[:6] = torch.tensor([0.5, -0.5, 1.5, 2.5, float("nan"), float("inf")])
    out = torch.empty(6, 32)
    libdevice_kernel[(1,)](x, y, out, 32)
    wide = y.double()
    expected = torch.stack(
        [
            torch.pow(x.double(), wide),
            torch.tanh(wide),
            torch.copysign(torch.floor(wide.abs() + 0.5), wide),
            torch.isnan(wide).double(),
            torch.erfc(wide),
            torch.exp(wide),
        ]
    )
    torch.testing.assert_close(out, expected.float(), rtol=0, atol=0, equal_nan=True)
