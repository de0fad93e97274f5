"""Launches in native code that repeat an earlier one with other tensors and numbers report what the machine reports."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from harness.engines.triton.driver import LaunchRequest
from harness.engines.virtual.native.native_code import ExecutorMode, NativeCode, RepeatableLaunch
from harness.engines.virtual.native.repeated_launch import LaunchValues
from harness.model.case import LaneFill
from harness.model.run import OrderDependence, Overlap, Stray, UndefinedLanes, UninitialisedRead
from tests.engines.conftest import Gpu

Launch = Callable[[], torch.Tensor]


@dataclass(slots=True)
class Counting(NativeCode):
    """Native code that keeps which repeated launches it executed."""

    repeats: list[bool] = field(default_factory=list[bool])

    def repeat(self, repeatable: RepeatableLaunch, values: LaunchValues) -> bool:
        self.repeats.append(NativeCode.repeat(self, repeatable, values))
        return self.repeats[-1]


@pytest.fixture
def native(tmp_path: Path) -> Counting:
    return Counting(ExecutorMode.NATIVE, tmp_path)


@triton.jit
def scaled_kernel(x, out, shift, step, rows, scale, N: tl.constexpr, FILLED: tl.constexpr):
    at = tl.program_id(0) * step + tl.arange(0, N)
    inside = at < rows
    value = tl.load(x + at + shift, mask=inside, other=0.0) if FILLED else tl.load(x + at + shift, mask=inside)
    if rows > 40:
        value += 1.0
    tl.store(out + at, value * scale, mask=inside)


def scaled(
    x: torch.Tensor,
    out: torch.Tensor | None = None,
    *,
    grid: int = 4,
    shift: int = 2,
    step: int = 16,
    rows: int = 50,
    scale: float = 2.5,
    filled: bool = True,
) -> torch.Tensor:
    out = torch.zeros(64) if out is None else out
    scaled_kernel[(grid,)](x, out, shift, step, rows, scale, 16, filled)
    return out


def everything(gpu: Gpu, native: NativeCode, launches: list[Launch]) -> list[Any]:
    """Return all that launches leave: results, events, records, lines, tensors, writers."""
    torch.manual_seed(0)
    gpu.begin(LaneFill.ODD)
    gpu.launches.native = native
    outs = [launch() for launch in launches]
    case = gpu.case_launches
    writers = [case.writers[out.untyped_storage().data_ptr()] for out in outs]
    parts = list(case.partly_stored())
    return [
        [out.contiguous().view(torch.int32).tolist() for out in outs],
        case.memory,
        case.launches,
        case.executed_lines(),
        parts,
        writers,
    ]


def normal(elements: int = 64) -> torch.Tensor:
    return torch.randn(elements)


def fresh(gpu: Gpu, stored: int) -> torch.Tensor:
    with gpu.fresh:
        x = torch.empty(64)
    x[:stored] = 1
    return x


def shared(x: torch.Tensor, **numbers: Any) -> torch.Tensor:
    return scaled(x, x, **numbers)


CASES: dict[str, tuple[Callable[[Gpu], list[Launch]], list[bool], list[type]]] = {
    "clean": (lambda _: [lambda: scaled(normal())] * 3, [True, True], []),
    "other numbers": (
        lambda _: [
            *[lambda: scaled(normal(), scale=0.0), lambda: scaled(normal(), scale=-0.0)],
            *[lambda: scaled(normal(), rows=33, step=17, grid=2, scale=7), lambda: scaled(normal(), scale=1e300)],
        ],
        [True, True],
        [],
    ),
    "undefined lanes": (lambda _: [lambda: scaled(normal(), filled=False)] * 2, [True], [UndefinedLanes] * 2),
    "undefined lanes of the second alone": (
        lambda _: [lambda grid=grid: scaled(normal(), grid=grid, filled=False) for grid in (3, 4, 3)],
        [True, True],
        [UndefinedLanes],
    ),
    "fresh memory that the second reads": (
        lambda gpu: [lambda: scaled(normal()), lambda: scaled(fresh(gpu, 20)), lambda: scaled(fresh(gpu, 64))],
        [True, True],
        [UninitialisedRead],
    ),
    "fresh memory that is stored in part": (
        lambda gpu: [lambda: scaled(normal()), lambda: scaled(normal(), fresh(gpu, 0))],
        [True],
        [],
    ),
    "a stray in the second": (
        lambda _: [lambda shift=shift: scaled(normal(), shift=shift) for shift in (2, 1 << 20 | 2, 3, 4)],
        [False, True],
        [Stray],
    ),
    "an overlap in the second": (
        lambda _: [lambda step=step: scaled(normal(), step=step) for step in (17, 9, 17)],
        [False],
        [Overlap],
    ),
    "aliases in the second": (
        lambda _: [lambda: scaled(normal()), lambda: shared(normal()), lambda: scaled(normal())],
        [True],
        [OrderDependence],
    ),
    "another offset": (
        lambda _: [lambda at=at: scaled(normal(96)[at : at + 64]) for at in (0, 16, 16)],
        [True],
        [],
    ),
    "gaps": (
        lambda _: [lambda: scaled(normal(), torch.zeros(64, 2)[:, 0])] * 2,
        [],
        [Stray] * 2,
    ),
    "a storage that ends earlier": (
        lambda _: [lambda: scaled(normal(), shift=14), lambda: scaled(normal(50), shift=14)],
        [],
        [Stray],
    ),
}


@pytest.mark.alone("some launches stray")
@pytest.mark.parametrize("name", CASES)
def test_a_repeated_launch_leaves_what_the_machine_leaves(gpu: Gpu, native: Counting, name: str) -> None:
    launches, repeats, kinds = CASES[name]
    machine = everything(gpu, NativeCode(), launches(gpu))
    assert everything(gpu, native, launches(gpu)) == machine
    assert (native.repeats, [type(event) for event in gpu.memory]) == (repeats, kinds)


def test_a_repeated_launch_is_recorded_as_native(gpu: Gpu, native: Counting) -> None:
    everything(gpu, native, [lambda: scaled(normal())] * 3)
    assert [launch.executor for launch in gpu.seen] == ["native"] * 3


def test_another_backend_repeats_no_launch_of_an_earlier_one(gpu: Gpu, native: Counting, tmp_path: Path) -> None:
    everything(gpu, native, [lambda: scaled(normal())] * 2)
    other = Counting(ExecutorMode.NATIVE, tmp_path / "other")
    everything(gpu, other, [lambda: scaled(normal())] * 2)
    assert (native.repeats, other.repeats) == ([True], [True])


@triton.jit
def flag_kernel(x, out, flag, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + at, tl.load(x + at) + flag.to(tl.float32))


def test_truth_values_of_repeated_launches_differ(gpu: Gpu, native: Counting) -> None:
    gpu.launches.native = native
    outs = [torch.zeros(32) for _ in range(4)]
    for out, flag in zip(outs, (True, False, True, False), strict=True):
        flag_kernel[(2,)](torch.zeros(32), out, flag, 16)
    assert [out.unique().tolist() for out in outs] == [[1.0], [0.0], [1.0], [0.0]]
    assert native.repeats == [True] * 3


NUMBERS = """module {
  tt.func public @kernel(%out: !tt.ptr<i32>) attributes {noinline = false} {
    %c3_i32 = arith.constant 3 : i32
    %pid = tt.get_program_id x : i32
    %value = arith.muli %pid, %c3_i32 : i32
    %cell = tt.addptr %out, %pid : !tt.ptr<i32>, i32
    tt.store %cell, %value : !tt.ptr<i32>
    tt.return
  }
}
"""


def test_a_request_that_gets_another_text_launches_another_kernel(gpu: Gpu, native: Counting) -> None:
    gpu.launches.native = native
    request = LaunchRequest(
        ttir=NUMBERS,
        grid=(4, 1, 1),
        stream=0,
        source=SimpleNamespace(
            fn=SimpleNamespace(__name__="kernel", arg_names=["out"]), signature={"out": "*i32"}, constants={}, attrs={}
        ),
        metadata=SimpleNamespace(num_warps=4, num_stages=1),
        arguments=[torch.zeros(4, dtype=torch.int32)],
    )
    changed = replace(request, ttir=NUMBERS.replace("arith.constant 3", "arith.constant 5"))
    seen: list[list[int]] = []
    for each in (request, request, changed, changed, request):
        gpu.launches(each)
        seen.append(request.arguments[0].tolist())
    assert seen == [[0, 3, 6, 9]] * 2 + [[0, 5, 10, 15]] * 2 + [[0, 3, 6, 9]]
    assert native.repeats == [True] * 2
