"""Control flow: each program of a launch gets the results that it would get alone, whatever branches others take."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import pytest
import torch
import triton
import triton.language as tl

from harness.engines.virtual import machine
from tests.engines.conftest import Gpu

CHUNKS = [1, 3, 1 << 19]
PROGRAMS = 7


@pytest.fixture(params=CHUNKS, ids=["one by one", "three by three", "all together"])
def any_chunk(gpu: Gpu, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """A GPU that runs programs in chunks; results must not depend on the chunk size."""
    monkeypatch.setattr(machine, "largest_block", lambda _: 1)
    gpu.in_chunks_of(request.param)
    return gpu


@triton.jit
def for_kernel(bounds, out):
    pid = tl.program_id(0)
    low, high = tl.load(bounds + 2 * pid), tl.load(bounds + 2 * pid + 1)
    total = 0
    for i in range(low, high):
        for j in range(i, high, 2):
            total += i * 100 + j
            tl.store(out + pid * 64 + PROGRAMS_BY_TWO + i, total)
    for k in range(high, low, -1):
        total = total * 3 + k
    tl.store(out + pid * 64, total)


PROGRAMS_BY_TWO = tl.constexpr(20)


def test_each_program_makes_as_many_trips_as_alone(any_chunk: Gpu) -> None:
    bounds = torch.tensor([[0, 5], [3, 3], [2, 9], [5, 1], [-4, 0], [0, 1], [1, 12]], dtype=torch.int32)
    out = torch.zeros(PROGRAMS, 64, dtype=torch.int32)
    for_kernel[(PROGRAMS,)](bounds, out)
    expected = torch.zeros(PROGRAMS, 64, dtype=torch.int64)
    for pid, (low, high) in enumerate(bounds.tolist()):
        total = 0
        for i in range(low, high):
            for j in range(i, high, 2):
                total += i * 100 + j
                expected[pid, 20 + i] = total
        for k in range(high, low, -1):
            total = total * 3 + k
        expected[pid, 0] = (total + 2**31) % 2**32 - 2**31
    assert out.tolist() == expected.tolist()
    assert any_chunk.memory == []


@triton.jit
def if_kernel(x, out, N: tl.constexpr):
    pid = tl.program_id(0)
    at = tl.arange(0, N)
    value = tl.load(x + pid)
    total_so_far = at * 0
    if value > 0:
        total_so_far += at
        if value > 2:
            tl.store(out + pid * N + at, total_so_far)
        else:
            total_so_far = total_so_far * 2
    if value == 0:
        tl.store(out + pid * N + at, at - 50)
    elif value < 0:
        total_so_far -= value
    if value <= 2 and value != 0:
        tl.store(out + pid * N + at, total_so_far)


@pytest.mark.parametrize("values", [[-2, 0, 1, 2, 3, -1, 5], [1] * 7, [0] * 7, [3, 3, 3, 0, 0, 0, -4]], ids=str)
def test_each_program_takes_its_own_branches(any_chunk: Gpu, values: list[int]) -> None:
    out = torch.zeros(PROGRAMS, 8, dtype=torch.int32)
    if_kernel[(PROGRAMS,)](torch.tensor(values, dtype=torch.int32), out, 8)
    at = torch.arange(8)
    expected = [
        at if value > 2 else at * 2 if value > 0 else at - 50 if value == 0 else at * 0 - value for value in values
    ]
    assert out.tolist() == torch.stack(expected).tolist()
    assert any_chunk.memory == []


@triton.jit
def while_kernel(x, out):
    pid = tl.program_id(0)
    value = tl.load(x + pid)
    steps = 0
    while value > 1:
        value = tl.where(value % 2 == 0, value // 2, 3 * value + 1)
        steps += 1
    tl.store(out + pid, steps)


def test_a_while_loop_runs_for_each_program_until_it_leaves(any_chunk: Gpu) -> None:
    x = torch.tensor([1, 2, 3, 7, 27, 0, 6], dtype=torch.int32)
    out = torch.full((PROGRAMS,), -1, dtype=torch.int32)
    while_kernel[(PROGRAMS,)](x, out)
    assert out.tolist() == [0, 1, 7, 16, 111, 0, 8]
    assert any_chunk.memory == []


@triton.jit
def return_kernel(x, out, n):
    pid = tl.program_id(0)
    if pid >= n:
        return
    value = tl.load(x + pid)
    if value < 0:
        tl.store(out + pid, -value)
        return
    for i in range(value):
        value += i
    tl.store(out + pid, value)


def test_programs_that_return_early_do_nothing_more(any_chunk: Gpu) -> None:
    x = torch.tensor([3, -4, 0, 5, -1], dtype=torch.int32)
    out = torch.zeros(PROGRAMS, dtype=torch.int32)
    return_kernel[(PROGRAMS,)](x, out, 5)
    assert out.tolist() == [6, 4, 0, 15, 1, 0, 0]
    assert any_chunk.memory == []


@triton.jit(noinline=True)
def collatz(value, limit):
    if value > limit:
        return value - limit
    if value % 2 == 0:
        return value // 2
    return 3 * value + 1


@triton.jit(noinline=True)
def put(out, at, value):
    tl.store(out + at, value)


@triton.jit
def call_kernel(x, out):
    pid = tl.program_id(0)
    value = tl.load(x + pid)
    if value != 4:
        put(out, pid, collatz(collatz(value, 20), 20))


def test_functions_that_are_not_inlined_run_for_each_program(any_chunk: Gpu) -> None:
    x = torch.tensor([1, 2, 4, 9, 21, 30, 7], dtype=torch.int32)
    out = torch.zeros(PROGRAMS, dtype=torch.int32)
    call_kernel[(PROGRAMS,)](x, out)
    assert out.tolist() == [2, 4, 0, 8, 4, 5, 2]
    assert any_chunk.memory == []


@triton.jit
def pointer_kernel(x, y, out, from_y, N: tl.constexpr):
    pid = tl.program_id(0)
    source = y if from_y else x
    at = source + pid * N
    total = 0
    for _ in range(pid + 1):
        total += tl.load(at)
        at += 1
    if pid % 2 == 0:
        at -= 1
    tl.store(out + pid * 2, total)
    tl.store(out + pid * 2 + 1, tl.load(at))


@pytest.mark.parametrize("from_y", [False, True])
def test_pointers_are_carried_through_loops_and_selected(any_chunk: Gpu, from_y: bool) -> None:  # noqa: FBT001 - a parametrised test's
    x, y = torch.randint(0, 99, (2, PROGRAMS, 8), dtype=torch.int32)
    x, y = x.clone(), y.clone()
    out = torch.zeros(PROGRAMS, 2, dtype=torch.int32)
    pointer_kernel[(PROGRAMS,)](x, y, out, int(from_y), 8)
    chosen = y if from_y else x
    expected = [[int(chosen[p, : p + 1].sum()), int(chosen[p, p + 1 - (p % 2 == 0)])] for p in range(PROGRAMS)]
    assert out.tolist() == expected
    assert any_chunk.memory == []


@triton.jit
def per_program_pointer_kernel(x, y, out):
    pid = tl.program_id(0)
    source = x
    if pid % 2 == 1:
        source = y
    tl.store(out + pid, tl.load(source + pid))


def test_each_program_may_select_the_argument_that_it_reads(any_chunk: Gpu) -> None:
    x, y, out = torch.arange(3 * PROGRAMS, dtype=torch.int32).view(3, PROGRAMS).clone()
    per_program_pointer_kernel[(PROGRAMS,)](x, y, out)
    assert out.tolist() == [int((y if pid % 2 else x)[pid]) for pid in range(PROGRAMS)]
    assert any_chunk.memory == []


@triton.jit
def grid_kernel(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    across, down = tl.num_programs(0), tl.num_programs(1)
    tl.store(out + (z * down + y) * across + x, x + 10 * y + 100 * z + 1000 * tl.num_programs(2))


def test_grids_have_three_axes(any_chunk: Gpu) -> None:
    out = torch.zeros(4, 3, 5, dtype=torch.int32)
    grid_kernel[(5, 3, 4)](out)
    assert out.tolist() == [[[x + 10 * y + 100 * z + 4000 for x in range(5)] for y in range(3)] for z in range(4)]
    assert any_chunk.memory == []


@triton.jit
def many_arguments_kernel(out, a, b, c, d, e):
    tl.store(out + 0, a)
    tl.store(out + 1, b)
    tl.store(out + 2, c)
    tl.store(out + 3, d)
    tl.store(out + 4, e)


def test_numbers_arrive_in_the_type_of_their_parameter(gpu: Gpu) -> None:
    out = torch.zeros(5, dtype=torch.float64)
    many_arguments_kernel[(1,)](out, -7, 1 << 40, 0.1, True, 1)  # noqa: FBT003 - the kernel's
    assert out.tolist() == [-7.0, float(1 << 40), torch.tensor(0.1).item(), 1.0, 1.0]
    assert gpu.memory == []


def test_an_empty_grid_runs_nothing(gpu: Gpu) -> None:
    out = torch.zeros(1, dtype=torch.int32)
    grid_kernel[(0,)](out)
    assert out.tolist() == [0]
    assert gpu.memory == []
