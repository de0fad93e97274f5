"""Kernels with a float64 value beside each value that they round."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from harness.engines.virtual.operations.rounding_growth import RoundingGrowth
from harness.execution.exact_memory import ExactMemory
from tests.engines.conftest import Gpu, line_of

SIZE = 64
TENTH = 0.1


@triton.jit
def scale_kernel(x, y, factor, size: tl.constexpr):
    at = tl.arange(0, size)
    value = tl.load(x + at).to(tl.float32) * factor + 1e-5
    tl.store(y + at, value.to(y.dtype.element_ty))


@triton.jit
def sums_kernel(x, y, size: tl.constexpr):
    at = tl.arange(0, size)
    value = tl.load(x + at)
    tl.store(y, tl.sum(value, 0))
    tl.store(y + 1, tl.max(value, 0))
    tl.store(y + 2 + at, tl.cumsum(value, 0))


@triton.jit
def accumulate_kernel(x, y, size: tl.constexpr):
    total = tl.zeros((1,), tl.bfloat16)
    for at in range(size):
        total += tl.load(x + at + tl.arange(0, 1))
    tl.store(y + tl.arange(0, 1), total)


@triton.jit
def product_kernel(x, y, size: tl.constexpr):
    at = tl.arange(0, size)[:, None] * size + tl.arange(0, size)[None, :]
    value = tl.load(x + at)
    tl.store(y + at, tl.dot(value, value).to(tl.bfloat16))


@triton.jit
def add_kernel(x, y, size: tl.constexpr):
    tl.atomic_add(y + tl.arange(0, size) % 2, tl.load(x + tl.program_id(0) * size + tl.arange(0, size)) * 0.7)


@triton.jit
def decide_kernel(x, y, size: tl.constexpr):
    at = tl.arange(0, size)
    third = tl.load(x + at) / 3.0
    tl.store(y + at, tl.where(third * 3.0 - tl.load(x + at) >= 1e-9, 1.0, 0.0))  # decides


@triton.jit
def bits_kernel(x, y, size: tl.constexpr):
    at = tl.arange(0, size)
    bits = tl.load(x + at).to(tl.int32, bitcast=True)
    tl.store(y + at, (bits ^ 0).to(tl.float32, bitcast=True))


@triton.jit
def difference_kernel(x, y, size: tl.constexpr):
    at = tl.arange(0, size)
    value = tl.load(x + at)
    mean = tl.sum(value, 0) / size
    difference = value - mean  # cancels
    tl.store(y + at, difference * 2.0)


@triton.jit
def add_if_positive(left, right):
    return tl.where(right > 0.0, left + right, left)


@triton.jit
def reduce_kernel(x, y, size: tl.constexpr):
    tl.store(y, tl.reduce(tl.load(x + tl.arange(0, size)) - 0.5, 0, add_if_positive))


@triton.jit
def branch_kernel(x, y):
    program = tl.program_id(0)
    value = tl.load(x + program)
    if value > 0.5:  # noqa: SIM108 - a branch is what is tested
        value = value * 0.3
    else:
        value = value * 0.1
    tl.store(y + program, value)


@triton.jit
def assembly_kernel(x, y, text: tl.constexpr, size: tl.constexpr):
    at = tl.arange(0, size)
    value = tl.load(x + at) * 0.1
    tl.store(y + at, tl.inline_asm_elementwise(text, "=r,r", [value], tl.float32, is_pure=True, pack=1))


def exactly(
    gpu: Gpu, launch: Callable[[], object], result: torch.Tensor, growth: RoundingGrowth | None = None
) -> tuple[torch.Tensor, tuple[str, ...]]:
    """Return the exact values of a result, and what makes them doubtful."""
    memory = ExactMemory()
    with gpu.launches.exactly(memory, growth):
        launch()
    return memory.read(result), tuple(memory.doubts)


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def assert_exact(exact: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(exact, expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_narrow_store_leaves_the_exact_value_as_it_is(gpu: Gpu, dtype: torch.dtype) -> None:
    x, y = random(SIZE, dtype=dtype), torch.zeros(SIZE, dtype=dtype)
    exact, doubts = exactly(gpu, lambda: scale_kernel[(1,)](x, y, TENTH, SIZE), y)
    assert_exact(exact, x.double() * TENTH + 1e-5)
    assert not doubts
    assert (y.double() != exact).any()


def test_sums_scans_and_maxima_are_exact(gpu: Gpu) -> None:
    x, y = random(SIZE, dtype=torch.bfloat16), torch.zeros(SIZE + 2, dtype=torch.bfloat16)
    exact, _ = exactly(gpu, lambda: sums_kernel[(1,)](x, y, SIZE), y)
    wide = x.double()
    assert_exact(exact, torch.cat([wide.sum()[None], wide.max()[None], wide.cumsum(0)]))


def test_a_narrow_accumulator_has_an_exact_sum(gpu: Gpu) -> None:
    x, y = random(SIZE, dtype=torch.bfloat16), torch.zeros(1, dtype=torch.bfloat16)
    exact, _ = exactly(gpu, lambda: accumulate_kernel[(1,)](x, y, SIZE), y)
    assert_exact(exact, x.double().sum()[None])
    assert abs(float(y) / float(exact) - 1) > 1e-3


def test_products_of_tensor_cores_are_exact(gpu: Gpu) -> None:
    x, y = random(16, 16), torch.zeros(16, 16, dtype=torch.bfloat16)
    exact, _ = exactly(gpu, lambda: product_kernel[(1,)](x, y, 16), y)
    assert_exact(exact, x.double() @ x.double())


def test_atomic_additions_are_exact(gpu: Gpu) -> None:
    x, y = random(4 * SIZE), torch.zeros(2)
    exact, doubts = exactly(gpu, lambda: add_kernel[(4,)](x, y, SIZE), y)
    assert_exact(exact, x.double().reshape(-1, 2).sum(0) * 0.7)
    assert not doubts


@pytest.mark.alone("its result depends on the order of the reduction")
def test_a_reduction_may_use_values_around_it(gpu: Gpu) -> None:
    x, y = random(SIZE), torch.zeros(1)
    exact, doubts = exactly(gpu, lambda: reduce_kernel[(1,)](x, y, SIZE), y)
    assert not doubts
    assert abs(float(exact) - float(y)) < 1e-5


def test_programs_take_the_branches_of_their_real_values(gpu: Gpu) -> None:
    x, y = random(SIZE), torch.zeros(SIZE)
    exact, _ = exactly(gpu, lambda: branch_kernel[(SIZE,)](x, y), y)
    wide = x.double()
    assert_exact(exact, torch.where(wide > 0.5, wide * 0.3, wide * 0.1))


@pytest.mark.alone("each GPU rounds otherwise, so it decides otherwise")
def test_a_comparison_that_rounding_decides_is_named(gpu: Gpu) -> None:
    x, y = 1e3 * random(SIZE), torch.zeros(SIZE)
    _, (doubt,) = exactly(gpu, lambda: decide_kernel[(1,)](x, y, SIZE), y)
    assert doubt == f"a decision that rounding makes (test_exact_handlers.py:{line_of(__file__, 'decides')})"


def test_numbers_made_of_bits_are_unknown(gpu: Gpu) -> None:
    x, y = random(SIZE), torch.zeros(SIZE)
    exact, (doubt,) = exactly(gpu, lambda: bits_kernel[(1,)](x, y, SIZE), y)
    assert exact.isnan().all()
    assert doubt.startswith("tt.bitcast cannot be followed (test_exact_handlers.py:")


def test_the_error_grows_where_equal_numbers_cancel(gpu: Gpu) -> None:
    x, y, growth = 1e4 + 1e-2 * random(SIZE), torch.zeros(SIZE), RoundingGrowth()
    exactly(gpu, lambda: difference_kernel[(1,)](x, y, SIZE), y, growth)
    (largest,) = growth.launches()
    assert (largest.operation, largest.source and largest.source.line) == ("arith.subf", line_of(__file__, "cancels"))
    assert largest.before < 1e-6 < largest.after


def test_real_values_stay_the_same_bit_for_bit(gpu: Gpu) -> None:
    x = random(SIZE, dtype=torch.bfloat16)
    results: list[Any] = [torch.zeros(SIZE, dtype=torch.bfloat16) for _ in range(2)]
    scale_kernel[(1,)](x, results[0], TENTH, SIZE)
    exactly(gpu, lambda: scale_kernel[(1,)](x, results[1], TENTH, SIZE), results[1])
    assert torch.equal(*results)


LOGARITHM = """{
    .reg .pred p;
    setp.gt.f32 p, $1, LIMIT;
    @p mov.f32 $0, $1;
    @!p ex2.approx.ftz.f32 $0, $1;
    @!p fma.rn.f32 $0, $0, 0f3DCCCCCD, 1.0;
    @!p lg2.approx.ftz.f32 $0, $0;
}"""
"""log2(1 + 0.1 * 2^x), or x where that is above the limit."""


def assembled(gpu: Gpu, text: str) -> tuple[torch.Tensor, torch.Tensor, tuple[str, ...]]:
    x, y = torch.linspace(-40.0, 40.0, SIZE), torch.zeros(SIZE)
    exact, doubts = exactly(gpu, lambda: assembly_kernel[(1,)](x, y, text, SIZE), y)
    return x.double() * TENTH, exact, doubts


def test_float32_assembly_runs_in_float64(gpu: Gpu) -> None:
    x, exact, doubts = assembled(gpu, LOGARITHM.replace("LIMIT", "3.0"))
    right = torch.where(x > 3.0, x, torch.log2(1 + TENTH * torch.exp2(x)))
    assert doubts == ()
    torch.testing.assert_close(exact, right, rtol=1e-15, atol=0)


def test_a_predicate_that_rounding_decides_is_named(gpu: Gpu) -> None:
    values = torch.linspace(-40.0, 40.0, SIZE)
    rounded_down = values * TENTH < values.double() * TENTH
    limit = (values * TENTH)[rounded_down & (values > 0)][0].item()
    _, _, doubts = assembled(gpu, LOGARITHM.replace("LIMIT", f"{limit:.20f}"))
    assert len(doubts) == 1
    assert doubts[0].startswith("a decision that rounding makes")


@pytest.mark.parametrize("text", ["mov.b32 $0, $1;", "add.sat.f32 $0, $1, $1;", "xor.b32 $0, $1, 1;"])
def test_other_assembly_leaves_exact_values_unknown(gpu: Gpu, text: str) -> None:
    _, exact, doubts = assembled(gpu, text)
    assert exact.isnan().all()
    assert len(doubts) == 1
