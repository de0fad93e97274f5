"""Oversized launches: a sample of programs runs, an index overflow is seen, and long loops are cut."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import pytest
import torch
import triton
import triton.language as tl

from harness.engines.virtual.machine import MOST_TRIPS
from harness.engines.virtual.memory.oversized_launch import MOST_ACCESSES, sampled_ids
from harness.execution.oversized_tensors import SparseMemory, sparse
from harness.model.case import Scale
from harness.model.run import Access, AddressSpace, Stray
from tests.engines.conftest import Gpu

ROWS, COLUMNS = 2**21 + 2, 1024


@triton.jit
def row_kernel(x, WIDE: tl.constexpr, D: tl.constexpr):
    row = tl.program_id(0)
    if WIDE:
        row = row.to(tl.int64)
    at = x + row * D + tl.arange(0, D)
    tl.store(at, tl.load(at) + 1.0)


@triton.jit
def long_kernel(x, n):
    for step in range(n):
        tl.store(x + step, 1.0)


@triton.jit
def persistent_kernel(x, rows, D: tl.constexpr):
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        tl.store(x + row * D + tl.arange(0, D), 1.0)


@triton.jit
def count_kernel(x, counts, n):
    total = 0
    for step in range(n):
        total += tl.load(x + step).to(tl.int32)
    tl.store(counts + tl.program_id(0), total)


@triton.jit
def place_kernel(counts, out, D: tl.constexpr, WIDE: tl.constexpr, GUARDED: tl.constexpr):
    """Store a row at the place that a count decides, or, with `GUARDED`, at a fixed place if a count allows it."""
    row, count = tl.program_id(0), tl.load(counts)
    if WIDE:
        row = row.to(tl.int64)
    if GUARDED:
        if count < 7:
            tl.store(out + (row - 1) * D + tl.arange(0, D), 1.0)
    else:
        tl.store(out + (count.to(tl.int64) - 1) * D + tl.arange(0, D), 1.0)
        tl.store(out + row * D + tl.arange(0, D), 1.0)


@triton.jit
def copy_kernel(a, b):
    tl.store(b, tl.load(a))


@pytest.mark.parametrize(
    ("programs", "ids"),
    [
        (1, [0]),
        (2, [0, 1]),
        (4, [0, 1, 2, 3]),
        (101, [0, 1, 25, 50, 75, 99, 100]),
        (2**31, [0, 1, 2**29, 2**30, 3 * 2**29, 2**31 - 2, 2**31 - 1]),
    ],
)
def test_the_sample_has_the_first_two_the_last_two_and_the_quarters(programs: int, ids: list[int]) -> None:
    assert sampled_ids(programs).tolist() == ids


def test_an_offset_in_32_bits_strays_and_one_in_64_does_not(gpu: Gpu) -> None:
    gpu.case_launches.scale = Scale.OVERSIZED
    x = sparse((ROWS, COLUMNS), torch.float32)
    row_kernel[(ROWS,)](x, WIDE=True, D=COLUMNS)
    assert gpu.memory == []
    assert (float(x[-1, -1]), float(x[1, 0]), float(x[2, 0])) == (1.0, 1.0, 0.0)
    row_kernel[(ROWS,)](x, WIDE=False, D=COLUMNS)
    strays = [event for event in gpu.memory if isinstance(event, Stray)]
    assert [(one.access, one.region, one.program, one.element, one.wrapped) for one in strays] == [
        (access, AddressSpace.OUTSIDE_STORAGE, ROWS - 2, -(2**31), True) for access in (Access.LOAD, Access.STORE)
    ]


def test_a_row_beyond_the_end_is_no_overflow(gpu: Gpu) -> None:
    gpu.case_launches.scale = Scale.OVERSIZED
    row_kernel[(ROWS + 1,)](sparse((ROWS, COLUMNS), torch.float32), WIDE=True, D=COLUMNS)
    strays = [event for event in gpu.memory if isinstance(event, Stray)]
    assert [(one.program, one.element, one.wrapped) for one in strays] == [(ROWS, ROWS * COLUMNS, False)] * 2


def test_a_launch_with_long_loops_is_cut(gpu: Gpu) -> None:
    gpu.case_launches.scale = Scale.OVERSIZED
    x = torch.zeros(2 * MOST_ACCESSES)
    long_kernel[(1,)](x, 2 * MOST_ACCESSES)
    assert int(x.sum()) == MOST_ACCESSES
    assert [launch.cut for launch in gpu.seen] == [True]


def test_the_last_rows_of_a_persistent_kernel_are_seen_before_its_cut(gpu: Gpu) -> None:
    gpu.case_launches.scale = Scale.OVERSIZED
    persistent_kernel[(8,)](sparse((ROWS, COLUMNS), torch.float32), ROWS, D=COLUMNS)
    (stray,) = (event for event in gpu.memory if isinstance(event, Stray))
    assert (stray.access, stray.element, stray.wrapped) == (Access.STORE, -(2**31), True)
    assert [launch.cut for launch in gpu.seen] == [True]


def test_a_loop_beyond_the_trip_limit_is_cut(gpu: Gpu) -> None:
    gpu.case_launches.scale = Scale.OVERSIZED
    x = sparse((MOST_TRIPS + 1,), torch.float32)
    long_kernel[(1,)](x, MOST_TRIPS + 1)
    assert [launch.cut for launch in gpu.seen] == [True]
    assert gpu.memory == []


@pytest.mark.parametrize("grid", [(2**31, 1, 1), (1, 65_536, 1)])
def test_a_grid_that_cuda_refuses_is_recorded_but_not_executed(gpu: Gpu, grid: tuple[int, int, int]) -> None:
    gpu.case_launches.scale = Scale.OVERSIZED
    x = sparse((2**31, COLUMNS), torch.float32)
    row_kernel[grid](x, WIDE=False, D=COLUMNS)
    assert [launch.grid for launch in gpu.seen] == [grid]
    assert gpu.memory == []
    assert float(x[0, 0]) == 0.0


def unlike(count: int) -> torch.Tensor:
    return torch.full((count,), -(2**31) + 5, dtype=torch.int32)


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize(("programs", "steps"), [(1, 2 * MOST_ACCESSES), (8, 1)], ids=["cut", "sampled"])
def test_addresses_from_counts_of_an_incomplete_launch_are_not_judged(
    gpu: Gpu, programs: int, steps: int, *, guarded: bool
) -> None:
    gpu.case_launches.scale = Scale.OVERSIZED
    x, counts, out = torch.zeros(2 * MOST_ACCESSES), unlike(programs), torch.zeros(4, 128)
    with SparseMemory():
        count_kernel[(programs,)](x, counts, steps)
        later = counts.new_empty(1)
        copy_kernel[(1,)](counts[-1:], later)
        place_kernel[(1,)](later.cumsum(0).int(), out, D=128, WIDE=True, GUARDED=guarded)
    assert gpu.memory == []
    assert [launch.steered_by for launch in gpu.seen] == [(), (), ("counts",)]


def test_other_accesses_of_such_a_launch_are_judged(gpu: Gpu) -> None:
    gpu.case_launches.scale = Scale.OVERSIZED
    x, counts, out = torch.zeros(2 * MOST_ACCESSES), unlike(1), sparse((ROWS, COLUMNS), torch.float32)
    with SparseMemory():
        count_kernel[(1,)](x, counts, 2 * MOST_ACCESSES)
        place_kernel[(ROWS,)](counts, out, D=COLUMNS, WIDE=False, GUARDED=False)
    strays = [event for event in gpu.memory if isinstance(event, Stray)]
    assert [(one.access, one.element, one.wrapped) for one in strays] == [(Access.STORE, -(2**31), True)]


def test_addresses_from_counts_of_a_whole_launch_are_judged(gpu: Gpu) -> None:
    gpu.case_launches.scale = Scale.OVERSIZED
    x, counts, out = torch.zeros(9), unlike(1), torch.zeros(4, 128)
    with SparseMemory():
        count_kernel[(1,)](x, counts, 9)
        place_kernel[(1,)](counts, out, D=128, WIDE=True, GUARDED=False)
    strays = [event for event in gpu.memory if isinstance(event, Stray)]
    assert [(one.access, one.element, one.wrapped) for one in strays] == [(Access.STORE, -128, False)]


def test_addresses_after_host_code_read_such_a_count_are_not_judged(gpu: Gpu) -> None:
    gpu.case_launches.scale = Scale.OVERSIZED
    x, counts, out = torch.zeros(2 * MOST_ACCESSES), unlike(1), torch.zeros(4, 128)
    with SparseMemory():
        count_kernel[(1,)](x, counts, 2 * MOST_ACCESSES)
        rows = 5 + max(0, int(counts[0]))
        row_kernel[(rows,)](out, WIDE=True, D=128)
    assert gpu.memory == []
    assert gpu.seen[-1].steered_by == ("numbers that host code reads",)


def test_an_offset_of_64_bits_far_away_has_not_overflowed(gpu: Gpu) -> None:
    gpu.case_launches.scale = Scale.OVERSIZED
    out = torch.zeros(2 * COLUMNS)
    place_kernel[(1,)](torch.tensor([2**28 + 2]), out, D=COLUMNS, WIDE=True, GUARDED=False)
    (stray,) = (event for event in gpu.memory if isinstance(event, Stray))
    assert (stray.element, stray.wrapped) == (2**38 + COLUMNS, False)
