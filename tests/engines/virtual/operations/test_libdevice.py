"""Every libdevice symbol runs in a kernel and agrees with fractions, or with mpmath at 60 digits."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false

import inspect
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import hip
from triton.language.extra.cuda import libdevice

from harness import catalogue
from harness.engines.virtual.operations.libdevice_names import libdevice_name
from tests.engines.conftest import Gpu, MakeGpu
from tests.engines.virtual.operations.libdevice_expected import BLOCKWISE, REAL, expectation, table_name

N = 64
ABSTAINS = {"__nv_rcp64h"}
DTYPES = {
    "int32": torch.int32,
    "uint32": torch.uint32,
    "int64": torch.int64,
    "uint64": torch.uint64,
    "fp32": torch.float32,
    "fp64": torch.float64,
}


@triton.jit
def unary(FUNCTION: tl.constexpr, a, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, FUNCTION(tl.load(a + at)))


@triton.jit
def binary(FUNCTION: tl.constexpr, a, b, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, FUNCTION(tl.load(a + at), tl.load(b + at)))


@triton.jit
def ternary(FUNCTION: tl.constexpr, a, b, c, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, FUNCTION(tl.load(a + at), tl.load(b + at), tl.load(c + at)))


@triton.jit
def quaternary(FUNCTION: tl.constexpr, a, b, c, d, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, FUNCTION(tl.load(a + at), tl.load(b + at), tl.load(c + at), tl.load(d + at)))


KERNELS: dict[int, Any] = {1: unary, 2: binary, 3: ternary, 4: quaternary}
Overload = tuple[str, Any, tuple[str, ...], str]


class Anything:
    """A stand-in for operands while the symbols are listed."""

    def to(self, *_arguments: object, **_options: object) -> "Anything":
        return self


def overloads(library: Any) -> Iterator[Overload]:
    """Each symbol with the function that calls it and its operand and result types, as Triton declares them."""
    seen: list[dict[tuple[Any, ...], tuple[str, Any]]] = []

    def record(_library: str, _path: str, _arguments: object, table: Any, **_options: object) -> Anything:
        seen.append(table)
        return Anything()

    core: Any = library.core
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "extern_elementwise", record)
        for _, function in inspect.getmembers(library, inspect.isfunction):
            if function.__module__ == library.__name__:
                seen.clear()
                count = len(inspect.signature(function).parameters) - 1
                function(*[Anything()] * count, _semantic=Anything())
                for operand_types, (symbol, result_type) in seen[0].items() if seen else ():
                    yield symbol, function, tuple(kind.name for kind in operand_types), result_type.name


OVERLOADS = sorted(overloads(libdevice), key=lambda one: one[0])
OF_AMD = sorted(overloads(hip.libdevice), key=lambda one: one[0])


# --- operands ---

FLOATS = [0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.3, 7.25, -100.7, 1e-3, 3e9, -3e9, 1e19, 2.0**31, 2.0**63]
SPECIAL = [-0.0, math.inf, -math.inf, math.nan]
INTEGERS = [0, 1, -1, 2, 7, -100, 255, 2**31 - 1, -(2**31), 0x12345678, 0x00800001, 3, 1 << 24, (1 << 24) + 1]
LONG = [*INTEGERS, 2**63 - 1, -(2**63), (1 << 53) + 1, (1 << 40) + 12345, -((1 << 60) + 7)]
UNIT = ("erfinv", "erfcinv", "normcdfinv", "atanh", "asin", "acos")
ORDERS = [0, 1, 2, 3, 5, 8, 20]


def operands(name: str, operand_types: Sequence[str]) -> list[torch.Tensor]:
    """One block for each operand: special values first, rotated differently in each block to combine them."""
    generator = np.random.default_rng(len(name) + 7 * len(operand_types))
    blocks: list[torch.Tensor] = []
    for position, kind in enumerate(operand_types):
        if kind in {"fp32", "fp64"}:
            special_values = [] if name in UNIT else [*(SPECIAL if name in BLOCKWISE else []), *FLOATS]
            random_values = (
                generator.random(N) if name in UNIT else generator.normal(size=N) * 2.0 ** generator.integers(-3, 4, N)
            )
            if name in {"j0", "j1", "y0", "y1", "jn", "yn", "cyl_bessel_i0", "cyl_bessel_i1", "tgamma", "lgamma"}:
                special_values, random_values = [0.5, 1.5, 2.5, 12.0, 20.25, 1e-9], generator.random(N) * 15 + 0.1
                if name[0] in "jy":
                    random_values[32:48] += 25  # both sides of the point where the algorithm changes
                    random_values[48:50] = 1e-4, 12345.5
            values = np.array((special_values[position:] + special_values[:position]) + random_values.tolist())[:N]
            blocks.append(torch.from_numpy(values).to(DTYPES[kind]))
        elif name in {"jn", "yn", "ldexp", "scalbn", "powi"}:
            blocks.append(torch.tensor((ORDERS * 10)[:N], dtype=torch.int32))
        else:
            bits = 64 if "64" in kind else 32
            special_values = LONG if bits == 64 else INTEGERS
            drawn = generator.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, N).tolist()
            numbers = ((special_values[position:] + special_values[:position]) + drawn)[:N]
            blocks.append(torch.tensor(numbers, dtype=getattr(torch, f"int{bits}")).view(DTYPES[kind]))
    return blocks


def run(function: object, operand_blocks: Sequence[torch.Tensor], result_type: str) -> torch.Tensor:
    out = torch.zeros(N, dtype=DTYPES[result_type])
    KERNELS[len(operand_blocks)][(1,)](function, *operand_blocks, out, N)
    return out.view(getattr(torch, result_type.removeprefix("u"))) if result_type.startswith("u") else out


@pytest.mark.parametrize(
    ("symbol", "function", "operand_types", "result_type"), OVERLOADS, ids=[one[0] for one in OVERLOADS]
)
def test_each_symbol_follows_the_cuda_math_api(
    gpu: Gpu, symbol: str, function: object, operand_types: tuple[str, ...], result_type: str
) -> None:
    if symbol in ABSTAINS:
        found = gpu.unsupported(lambda: run(function, operands(symbol, operand_types), result_type))
        assert found.what == f"tt.extern_elementwise: the external function {symbol}"
        return
    whole_name = table_name(symbol, BLOCKWISE)
    operand_blocks = operands(whole_name or table_name(symbol, REAL), operand_types)
    out = run(function, operand_blocks, result_type)
    if whole_name:
        expected = BLOCKWISE[whole_name](*operand_blocks).to(out.dtype)
        torch.testing.assert_close(out, expected, rtol=0, atol=0, equal_nan=True)
        return
    expect, rtol = expectation(symbol, result_type)
    judged: list[int] = []
    expected = torch.zeros_like(out).double() if out.is_floating_point() else torch.zeros_like(out)
    for lane, numbers in enumerate(zip(*(block.tolist() for block in operand_blocks), strict=True)):
        try:
            answer = expect(*numbers)
        except (ZeroDivisionError, ValueError):
            continue  # a pole
        if math.isfinite(answer) or out.is_floating_point():
            expected[lane] = answer
            judged.append(lane)
    assert len(judged) > N // 2
    torch.testing.assert_close(
        out[judged], expected[judged].to(out.dtype), rtol=rtol, atol=1e-14 if rtol else 0, equal_nan=True
    )


def test_symbols_of_amd_mean_the_functions_of_the_same_name() -> None:
    known = {*BLOCKWISE, *REAL} - {"llabs"}  # AMD's one symbol for integers is that of both widths

    def meant(symbol: str) -> str:
        name = libdevice_name(symbol)
        return table_name(name.replace("llabs", "abs").replace("isfinite", "finite"), known)

    of_nvidia = {(function.__name__, types): meant(symbol) for symbol, function, types, _ in OVERLOADS}
    pairs = [(symbol, of_nvidia.get((function.__name__, types))) for symbol, function, types, _ in OF_AMD]
    assert {(symbol, meant(symbol), theirs) for symbol, theirs in pairs if theirs and meant(symbol) != theirs} == set()
    assert len(OF_AMD) > 80


@pytest.mark.parametrize(("symbol", "function", "operand_types", "result_type"), OF_AMD, ids=[one[0] for one in OF_AMD])
def test_each_symbol_of_amd_runs(
    make_gpu: MakeGpu, symbol: str, function: object, operand_types: tuple[str, ...], result_type: str
) -> None:
    make_gpu(catalogue.find("mi300x"))
    name = table_name(libdevice_name(symbol), {*BLOCKWISE, *REAL})
    out = run(function, operands(name, operand_types), result_type)
    assert not (out == 0).all()


def test_infinite_and_nan_operands_follow_ieee_754(gpu: Gpu) -> None:
    del gpu
    inf, nan = math.inf, math.nan
    left = torch.tensor([inf, inf, nan, 1.0, 3e38, -3e38, 1e-40, 0.0] * 8)
    right = torch.tensor([1.0, -inf, 1.0, 0.0, 3e38, -3e38, -1e-40, -0.0] * 8)
    most = torch.finfo(torch.float32).max
    down = run(libdevice.add_rd, (left, right), "fp32")
    expected = torch.tensor([inf, nan, nan, 1.0, most, -inf, -0.0, -0.0])
    torch.testing.assert_close(down[:8], expected, rtol=0, atol=0, equal_nan=True)
    assert torch.signbit(down[6:8]).all()
    wide = run(libdevice.add_rd, (left.double(), right.double()), "fp64")
    assert torch.signbit(wide[6:8]).all()
    quotient = run(libdevice.div_ru, (left.double(), right.double()), "fp64")
    torch.testing.assert_close(quotient[:4], torch.tensor([inf, nan, nan, inf]).double(), equal_nan=True)
    most_wide = torch.full((N,), torch.finfo(torch.float64).max, dtype=torch.float64)
    assert torch.equal(run(libdevice.mul_rz, (most_wide, most_wide), "fp64"), most_wide)
    assert run(libdevice.mul_rn, (most_wide, most_wide), "fp64").isinf().all()


def test_nan_converts_as_in_the_ptx_isa(gpu: Gpu) -> None:
    del gpu
    nan, narrow = torch.full((N,), math.nan), -(2**31)
    assert (run(libdevice.float2int_rn, (nan,), "int32") == 0).all()
    assert (run(libdevice.double2int_rn, (nan.double(),), "int32") == narrow).all()
    assert (run(libdevice.float2ll_rn, (nan,), "int64") == -(2**63)).all()


def test_a_bessel_function_of_a_huge_order_is_unsupported(gpu: Gpu) -> None:
    order = torch.full((N,), 10_001, dtype=torch.int32)
    found = gpu.unsupported(lambda: run(libdevice.jn, (order, torch.ones(N)), "fp32"))
    assert found.what == "tt.extern_elementwise: a Bessel function of order 10001"
