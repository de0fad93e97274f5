"""Random rounding perturbs results by as much as rounding may, and leaves exact operations alone."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from harness.engines.comparison.differences import SAMPLING_MARGIN
from harness.engines.virtual.operations.random_rounding import EPSILON, EPSILONS, rounded_at_random
from harness.engines.virtual.operations.table import HANDLERS
from tests.engines.conftest import Gpu

SIZE = 32
SIDE = tl.constexpr(SIZE)
TRUNCATIONS = {
    torch.float16: (16, 25),
    torch.bfloat16: (16, 25),
    torch.float32: (8, 25),
    torch.float8_e4m3fn: (32, 13),
    torch.float8_e5m2: (32, 13),
}
"""By type, how many products an H200 sums at once, and at how many bits below the largest it truncates; f32 is tf32."""


@triton.jit
def cancel(x, y, size: tl.constexpr):
    at = tl.arange(0, size)
    value = tl.load(x + at)
    tl.store(y + at, (value * 3.0 - tl.sum(value * 3.0, 0) / size) * 1e6)


@triton.jit
def total(x, y, size: tl.constexpr):
    at = tl.arange(0, size)
    tl.store(y + at, tl.broadcast_to(tl.sum(tl.load(x + at), 0), (size,)))


@triton.jit
def largest(x, y, size: tl.constexpr):
    at = tl.arange(0, size)
    value = tl.load(x + at)
    tl.store(y + at, tl.where(value == tl.max(value, 0), 1.0, value))


@triton.jit
def count(x, y, size: tl.constexpr):
    at = tl.arange(0, size)
    tl.store(y + at, (tl.load(x + at) > 0.0).to(tl.int32) + at * 3)


@triton.jit
def product(x, y, size: tl.constexpr):
    """A product that cancels: rows of equal numbers times columns of as many ones as minus ones."""
    at = tl.arange(0, size)
    value = tl.load(x + at)
    signs = tl.where(at[:, None] % 2 == 0, 1.0, -1.0).to(value.dtype)
    left, right = tl.broadcast_to(value[:, None], (size, size)), tl.broadcast_to(signs, (size, size))
    tl.store(y + at, tl.max(tl.dot(left, right, input_precision="ieee"), 1))


@triton.jit
def product_less(x, w, c, y, inner):
    """Compute `x @ w - c` in a loop over blocks of 64 of the inner axis."""
    at = tl.arange(0, SIDE)
    sums = tl.zeros((SIDE, SIDE), tl.float32)
    for begin in range(0, inner, 64):
        k = begin + tl.arange(0, 64)
        left, right = tl.load(x + at[:, None] * inner + k[None, :]), tl.load(w + k[:, None] * SIDE + at[None, :])
        sums = tl.dot(left, right, sums, input_precision="tf32")
    block = at[:, None] * SIDE + at[None, :]
    tl.store(y + block, sums - tl.load(c + block))


def begin(gpu: Gpu, seed: int | None) -> None:
    """Without a seed, begin a case without random rounding."""
    gpu.begin()
    gpu.launches.handlers = HANDLERS if seed is None else rounded_at_random(HANDLERS, seed)


def launched(gpu: Gpu, kernel: object, x: torch.Tensor, dtype: torch.dtype, seed: int | None) -> torch.Tensor:
    begin(gpu, seed)
    y = torch.empty(SIZE, dtype=dtype)
    kernel[(1,)](x, y, SIZE)  # pyright: ignore[reportIndexIssue] - a kernel, not a function
    return y


def test_a_cancelling_sum_varies_with_the_rounding_of_its_terms(gpu: Gpu) -> None:
    x = torch.full((SIZE,), 5.0)
    exact = launched(gpu, cancel, x, torch.float32, None)
    perturbed = [launched(gpu, cancel, x, torch.float32, seed) for seed in range(8)]
    assert bool((exact == 0).all())
    largest_change = max(float(one.abs().max()) for one in perturbed)
    unit = 15.0 * EPSILON * 1e6
    assert unit / 4 < largest_change < 4 * unit


@pytest.mark.parametrize(
    ("dtype", "element"), [(torch.float32, "f32"), (torch.float16, "f16"), (torch.bfloat16, "bf16")]
)
def test_a_sum_varies_with_the_precision_of_its_type(gpu: Gpu, dtype: torch.dtype, element: str) -> None:
    x = torch.cat([torch.full((SIZE // 2,), 5.0), torch.full((SIZE // 2,), -5.0)]).to(dtype)
    exact = launched(gpu, total, x, dtype, None)
    perturbed = [launched(gpu, total, x, dtype, seed) for seed in range(8)]
    assert bool((exact == 0).all())
    largest_change = max(float(one.abs().max()) for one in perturbed)
    unit = 5.0 * SIZE / 2 * EPSILONS[element]  # of its largest partial sums
    assert unit / 8 < largest_change < 4 * unit


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_sum_that_overflows_in_one_order_only_gives_both_results(gpu: Gpu, dtype: torch.dtype) -> None:
    large = 0.75 * torch.finfo(dtype).max
    x = torch.zeros(SIZE, dtype=dtype)
    x[0], x[1], x[2], x[3] = large, large, -large, -large
    perturbed = [launched(gpu, total, x, dtype, seed) for seed in range(8)]
    finite = [bool(one.isfinite().all()) for one in perturbed]
    assert not bool(launched(gpu, total, x, dtype, None).isfinite().any())
    assert any(finite)
    assert not all(finite)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_cancelling_product_varies_with_the_rounding_of_its_terms(gpu: Gpu, dtype: torch.dtype) -> None:
    x = torch.full((SIZE,), 5.0, dtype=dtype)
    exact = launched(gpu, product, x, torch.float32, None)
    perturbed = [launched(gpu, product, x, torch.float32, seed) for seed in range(8)]
    assert bool((exact == 0).all())
    largest_change = max(float(one.abs().max()) for one in perturbed)
    unit = 5.0 * EPSILON * SIZE**0.5
    assert unit / 4 < largest_change < 4 * unit


def test_equal_seeds_give_equal_results_and_others_do_not(gpu: Gpu) -> None:
    x = torch.randn(SIZE)
    one, same, other = (launched(gpu, cancel, x, torch.float32, seed) for seed in (3, 3, 4))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@pytest.mark.parametrize(("kernel", "dtype"), [(largest, torch.float32), (count, torch.int32)])
def test_exact_operations_are_not_perturbed(gpu: Gpu, kernel: object, dtype: torch.dtype) -> None:
    x = torch.randn(SIZE)
    exact = launched(gpu, kernel, x, dtype, None)
    assert all(torch.equal(launched(gpu, kernel, x, dtype, seed), exact) for seed in range(8))


def exponent(values: np.ndarray) -> np.ndarray:
    return np.floor(np.log2(np.maximum(np.abs(values), 1e-300)))


def on_tensor_cores(left: np.ndarray, right: np.ndarray, at_once: int, bits: int) -> np.ndarray:
    """Sum as an H200 does: `at_once` products, truncated at `bits` below the largest, then truncated to float32."""
    sums = np.zeros((left.shape[0], right.shape[1]))
    for begin in range(0, left.shape[1], at_once):
        products = left[:, begin : begin + at_once, None] * right[None, begin : begin + at_once, :]
        terms = np.concatenate([products, sums[:, None, :]], 1)
        last_kept = np.exp2(exponent(np.abs(terms).max(1)) - bits)[:, None]
        sums = (np.trunc(terms / last_kept) * last_kept).sum(1)
        last_kept = np.exp2(exponent(sums) - min(bits, 23))
        sums = np.trunc(sums / last_kept) * last_kept
    return sums


@pytest.mark.parametrize("inner", [64, 256, 1024])
@pytest.mark.parametrize("signs", ["either", "plus"])
@pytest.mark.parametrize("dtype", TRUNCATIONS)
def test_a_product_varies_with_the_truncation_of_tensor_cores(
    gpu: Gpu, dtype: torch.dtype, signs: str, inner: int
) -> None:
    at_once, bits = TRUNCATIONS[dtype]
    x, w = torch.randn(SIZE, inner), torch.randn(inner, SIZE)
    x, w = (one.abs() if signs == "plus" else one for one in (x, w))
    x, w = (
        (one.view(torch.int32) & -0x2000).view(dtype) if dtype == torch.float32 else one.to(dtype) for one in (x, w)
    )
    exact = x.double() @ w.double()
    truncation_loss = (
        torch.from_numpy(on_tensor_cores(x.double().numpy(), w.double().numpy(), at_once, bits)) - exact
    ).abs()

    def difference(seed: int | None) -> torch.Tensor:
        begin(gpu, seed)
        y = torch.empty(SIZE, SIZE)
        product_less[(1,)](x, w, exact.float(), y, inner)
        return y.abs()

    perturbed = torch.stack([difference(seed) for seed in range(8)]).amax(0)
    assert bool((difference(None) <= SAMPLING_MARGIN * perturbed).all())
    assert bool((truncation_loss <= SAMPLING_MARGIN * perturbed).all())
    assert float(perturbed.mean()) < 3 * SAMPLING_MARGIN * float(truncation_loss.mean())
