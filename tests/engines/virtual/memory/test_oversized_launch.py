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
from harness.execution.oversized_tensors import sparse
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
