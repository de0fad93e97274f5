"""A launch tells which lines of its kernel and of its device functions it executed, in either executor."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from harness.engines.virtual.native.native_code import ExecutorMode, NativeCode
from tests.engines.conftest import Gpu

LINES = Path(__file__).read_text(encoding="utf-8").splitlines()


def executed(gpu: Gpu) -> set[str]:
    """Return the comments at the ends of the executed lines of this file."""
    (launch,) = gpu.case_launches.executed_lines()
    (file,) = launch.files
    assert (file.file, launch.launches) == (__file__, 1)
    return {LINES[line - 1].partition("  # ")[2] for line in file.lines} - {""}


@pytest.fixture(params=ExecutorMode)
def executor(gpu: Gpu, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Execute launches in the interpreter, in native code, or as usual."""
    gpu.launches.native = NativeCode(request.param, tmp_path)
    return request.param


@triton.jit
def shifted(value, by):
    if by > 2:
        value = value + tl.exp(value)  # shifted far
    return value * 2.0  # shifted


@triton.jit
def branching_kernel(x, out, n, turns, N: tl.constexpr, EXACT: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at, mask=at < n, other=0.0)  # load
    if EXACT:
        value = tl.exp(value)  # exact
    if n > 4:
        value = tl.cumsum(value, 0)  # many
        tl.store(out + at, value, mask=at < 0)  # masked off
    else:
        tl.store(out + N + at, value)  # few
    for turn in range(turns):
        value += tl.load(x + at + turn, mask=at + turn < n, other=0.0)  # turn
    tl.store(out + at, shifted(value, turns))  # store


ALWAYS = {"load", "shifted", "store"}


@pytest.mark.parametrize(
    ("n", "turns", "expected"),
    [(8, 0, {"many", "masked off"}), (4, 1, {"few", "turn"}), (4, 3, {"few", "turn", "shifted far"})],
)
def test_lines_of_the_branches_that_were_taken_count_as_executed(
    gpu: Gpu, executor: str, n: int, turns: int, expected: set[str]
) -> None:
    branching_kernel[(1,)](torch.randn(8), torch.zeros(16), n, turns, 8, 0)
    assert executed(gpu) == ALWAYS | expected
    assert gpu.seen[0].executor == ("native" if executor == ExecutorMode.NATIVE else "numpy")


@triton.jit
def by_program_kernel(out, limit):
    program = tl.program_id(0)
    if program < limit:
        tl.store(out + program, tl.sqrt(program.to(tl.float32)))  # below
        if program == 7:
            tl.store(out, 1.0)  # seven
    else:
        tl.store(out + program, tl.exp(program.to(tl.float32)))  # above


@pytest.mark.parametrize(("limit", "expected"), [(0, {"above"}), (3, {"below", "above"}), (8, {"below", "seven"})])
def test_a_line_counts_once_a_single_program_executes_it(
    gpu: Gpu, executor: str, limit: int, expected: set[str]
) -> None:
    del executor
    by_program_kernel[(8,)](torch.zeros(8), limit)
    assert executed(gpu) == expected


@triton.jit
def returning_kernel(x, out, n, N: tl.constexpr):
    if n == 0:
        return
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at) + 1.0)  # after the return


@pytest.mark.parametrize(("n", "expected"), [(0, set[str]()), (1, {"after the return"})])
def test_lines_after_a_return_need_a_program_that_gets_there(
    gpu: Gpu, executor: str, n: int, expected: set[str]
) -> None:
    del executor
    returning_kernel[(1,)](torch.zeros(4), torch.zeros(4), n, 4)
    assert executed(gpu) == expected


def test_equal_launches_are_one_row_with_their_number(gpu: Gpu) -> None:
    def launch(limit: int) -> None:
        by_program_kernel[(8,)](torch.zeros(8), limit)

    for limit in (3, 4, 0):
        launch(limit)
    assert [row.launches for row in gpu.case_launches.executed_lines()] == [2, 1]


@triton.jit
def larger(left, right):
    return tl.maximum(left, right)  # combined


@triton.jit
def reducing_kernel(x, out, N: tl.constexpr):
    value = tl.load(x + tl.arange(0, N))  # row
    tl.store(out, tl.reduce(value, 0, larger))  # reduced


def test_the_function_of_a_reduction_is_executed_with_it(gpu: Gpu, executor: str) -> None:
    del executor
    reducing_kernel[(1,)](torch.randn(8), torch.zeros(1), 8)
    assert executed(gpu) == {"row", "combined", "reduced"}
