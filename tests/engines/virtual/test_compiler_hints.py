"""Hints that widen an access, and builds for other arguments, are compared with what a launch really does."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, ARG001, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from harness.engines.virtual.native.comparison import Comparison
from harness.engines.virtual.native.native_code import ExecutorMode, NativeCode
from harness.model.run import AccessSite, FalseHint, ForeignArgument, Hint, HintBreach, Source
from tests.engines.conftest import Gpu, line_of

pytestmark = pytest.mark.alone("what the compiler makes of a false hint is undefined")
CODE = NativeCode(ExecutorMode.NATIVE)


@triton.jit
def wrapped(x, y, n, most, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    at = o % n
    at = tl.max_contiguous(tl.multiple_of(at, B), B)  # wrapped lanes
    tl.store(y + o, tl.load(x + at, mask=o < most, other=0.0))  # wrapped access


@triton.jit
def moved(x, y, n, most, B: tl.constexpr):
    o = tl.arange(0, B)
    first = tl.multiple_of(n * tl.program_id(0), 4)  # a scalar
    tl.store(y + first + o, 1.0, mask=o < most)  # moved access


@triton.jit
def guarded(x, y, n, most, B: tl.constexpr):
    o = tl.arange(0, B)
    inside = tl.max_constancy(o < n, 8)  # a mask
    tl.store(y + o, tl.load(x + o, mask=inside, other=0.0), mask=o < most)  # guarded access


@triton.jit
def by_rows(x, y, n, most, B: tl.constexpr):
    o = tl.arange(0, B)
    row = tl.max_constancy(o // n, 8)  # rows
    tl.store(y + o, tl.load(x + row * 64 + o), mask=o < most)  # rows access


@triton.jit
def down(x, y, n, most, B: tl.constexpr):
    rows, columns = tl.arange(0, B), tl.arange(0, 4)
    at = tl.max_contiguous(tl.multiple_of(rows % n, B), B)  # along the first axis
    loaded = tl.load(x + at[:, None] + columns[None, :] * 256)  # down access
    tl.store(y + rows[:, None] + columns[None, :] * B, loaded, mask=rows[:, None] < most)


@triton.jit
def columns_from_anywhere(x, y, n, most, B: tl.constexpr):
    rows, columns = tl.arange(0, 16), tl.arange(0, B)
    inside = tl.where(columns < n, columns, 0)
    inside = tl.max_contiguous(tl.multiple_of(inside, B), B)  # columns
    total = tl.zeros((16, B), tl.float32)
    for k in range(0, 64, 16):
        left = tl.load(x + rows[:, None] * 64 + (k + rows)[None, :])
        right = tl.load(x + (k + rows)[:, None] * 64 + inside[None, :])  # columns access
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(y + rows[:, None] * 64 + columns[None, :], total, mask=columns[None, :] < most)


@triton.jit
def strided(x, y, n, most, B: tl.constexpr):
    o = tl.arange(0, B)
    rows = tl.max_contiguous(tl.multiple_of(o % n, B), B)
    tl.store(y + o, tl.load(x + rows * most))


@triton.jit
def carried(x, y, n, most, B: tl.constexpr):
    o = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for _ in range(2):
        x = tl.multiple_of(x, 16)
        total += tl.load(x + o)
        x += n
    tl.store(y + o, total)


@triton.jit
def an_argument(x, y, n, most, B: tl.constexpr):
    o = tl.arange(0, B)
    n = tl.multiple_of(n, 16)
    tl.store(y + o, tl.load(x + n + o))


def launch(gpu: Gpu, kernel: Any, n: int, most: int, *, native: bool = True) -> list[Any]:
    """Launch in native code where that proves the launch clean, and return the launch's events."""
    gpu.launches.native = comparison = Comparison(CODE)
    programs = 2 if kernel in {wrapped, moved} else 1
    kernel[(programs,)](torch.arange(1024.0), torch.zeros(1024), n, most, B=64)
    (agreement,) = comparison.kernels.values()
    assert (agreement.differing_elements, agreement.launches_with_other_events, agreement.declined) == (0, 0, "")
    bails_out = not native or any(isinstance(event, FalseHint) for event in gpu.memory)
    assert (agreement.native, agreement.bailouts) == ((0, 1) if bails_out else (1, 0))
    return [event for event in gpu.memory if isinstance(event, FalseHint)]


def source(comment: str) -> Source:
    return Source(file=__file__, line=line_of(__file__, comment))


def false_hint(kernel: str, hint: Hint, values: tuple[int, ...], line: str, access: str, **facts: Any) -> FalseHint:
    argument = facts.pop("argument", "x")
    site = AccessSite(kernel=kernel, launch=0, argument=argument, source=source(line))
    return FalseHint(site=site, hint=hint, values=values, access=source(access), width=4, **facts)


def test_lanes_that_wrap_around_are_no_neighbours(gpu: Gpu) -> None:
    misaligned, apart = launch(gpu, wrapped, 101, 1024)
    expected = {"line": "wrapped lanes", "access": "wrapped access", "program": 1}
    assert apart == false_hint(
        "wrapped", Hint.CONTIGUITY, (64,), breach=HintBreach.APART, lanes=4, seen=(100, 0, 1), **expected
    )
    assert misaligned == false_hint(
        "wrapped", Hint.DIVISIBILITY, (64,), breach=HintBreach.MISALIGNED, lanes=24, seen=(3, 12), **expected
    )


def test_lanes_that_the_access_masks_off_do_not_count(gpu: Gpu) -> None:
    assert launch(gpu, wrapped, 101, 96) == []


def test_a_false_divisor_of_a_scalar_is_found_where_it_aligns_an_access(gpu: Gpu) -> None:
    (event,) = launch(gpu, moved, 66, 64)
    assert event == false_hint(
        "moved",
        Hint.DIVISIBILITY,
        (4,),
        "a scalar",
        "moved access",
        argument="y",
        breach=HintBreach.MISALIGNED,
        lanes=64,
        program=1,
        seen=(66, 8),
    )


def test_a_mask_that_changes_inside_a_vector_is_uneven(gpu: Gpu) -> None:
    (event,) = launch(gpu, guarded, 30, 64)
    assert event == false_hint(
        "guarded",
        Hint.CONSTANCY,
        (8,),
        "a mask",
        "guarded access",
        breach=HintBreach.UNEVEN,
        lanes=4,
        program=0,
        seen=(2,),
    )


def test_rows_that_change_inside_a_vector_part_its_lanes(gpu: Gpu) -> None:
    (event,) = launch(gpu, by_rows, 18, 64)
    assert (event.hint, event.breach, event.seen) == (Hint.CONSTANCY, HintBreach.APART, (16, 82, 2))


def test_a_vector_may_lie_along_the_first_axis(gpu: Gpu) -> None:
    (event,) = launch(gpu, down, 62, 64)
    assert event == false_hint(
        "down",
        Hint.CONTIGUITY,
        (64,),
        "along the first axis",
        "down access",
        breach=HintBreach.APART,
        lanes=16,
        program=0,
        seen=(60, 0, 2),
    )


def test_wrong_columns_count_where_a_store_keeps_them(gpu: Gpu) -> None:
    (event,) = launch(gpu, columns_from_anywhere, 35, 64)
    assert event == false_hint(
        "columns_from_anywhere",
        Hint.CONTIGUITY,
        (64,),
        "columns",
        "columns access",
        breach=HintBreach.APART,
        lanes=16 * 32,  # of the last trip
        program=0,
        seen=(48 * 64 + 32, 48 * 64, 3),
    )


def test_wrong_columns_that_the_store_masks_off_do_not_count(gpu: Gpu) -> None:
    assert launch(gpu, columns_from_anywhere, 35, 35, native=False) == []


@pytest.mark.parametrize(
    ("kernel", "n", "most"),
    [(wrapped, 128, 1024), (moved, 64, 64), (guarded, 32, 64), (by_rows, 16, 64), (down, 64, 64)],
    ids=lambda kernel: getattr(kernel, "__name__", ""),
)
def test_a_true_hint_is_no_finding(gpu: Gpu, kernel: Any, n: int, most: int) -> None:
    assert launch(gpu, kernel, n, most) == []


@pytest.mark.parametrize("kernel", [strided, carried, an_argument], ids=lambda kernel: kernel.__name__)
def test_a_false_hint_that_widens_no_access_is_no_finding(gpu: Gpu, kernel: Any) -> None:
    assert launch(gpu, kernel, 37, 5) == []


@triton.jit
def scaled(x, y, n, stride, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, 2 * tl.load(x + o * stride, mask=o < n, other=0.0), mask=o < n)


@triton.jit
def gathered(x, y, n, stride, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o * stride, tl.load(x + o * stride, mask=o < n, other=0.0), mask=o < n)


def foreign(kernel: Any, argument: str, promised: str, passed: str) -> ForeignArgument:
    site = AccessSite(kernel=kernel.__name__, launch=1, argument=argument, source=None)
    return ForeignArgument(site=site, promised=promised, passed=passed)


BUILDS: list[tuple[Any, int, Callable[[torch.Tensor], tuple[Any, ...]], list[tuple[str, str, str]]]] = [
    (scaled, 1, lambda x: (x, 64, 1), []),
    (scaled, 1, lambda x: (x[1:], 64, 1), [("x", "multiples of 16", "at 4 bytes beyond a multiple of 16")]),
    (scaled, 1, lambda x: (x, 63, 1), [("n", "multiples of 16", "= 63")]),
    (scaled, 1, lambda x: (x, 64, 2), [("stride", "1", "= 2")]),
    (gathered, 3, lambda x: (x[1:], 63, 5), []),
]


@pytest.mark.parametrize(("kernel", "stride", "others", "expected"), BUILDS)
def test_a_build_for_other_arguments_is_found_where_it_relies_on_them(
    gpu: Gpu,
    kernel: Any,
    stride: int,
    others: Callable[[torch.Tensor], tuple[Any, ...]],
    expected: list[tuple[str, str, str]],
) -> None:
    x, y = torch.arange(1024.0), torch.zeros(1024)
    build = kernel[(1,)](x, y, 64, stride, B=64)
    first, *rest = others(x)
    build[(1, 1, 1)](first, y, *rest, 64)
    assert gpu.memory == [foreign(kernel, *each) for each in expected]
