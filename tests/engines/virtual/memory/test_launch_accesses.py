"""Accesses of whole launches: stray lanes, views of every layout, masks, fresh memory."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import pytest
import torch
import triton
import triton.language as tl

from harness.model.case import LaneFill
from harness.model.run import (
    Access,
    AccessSite,
    AddressSpace,
    OrderDependence,
    Overlap,
    Source,
    Stray,
    UndefinedLanes,
    UninitialisedRead,
)
from tests.engines.conftest import Gpu, line_of

HERE = __file__


def site(kernel: str, argument: str, comment: str) -> AccessSite:
    return AccessSite(kernel=kernel, launch=0, argument=argument, source=Source(file=HERE, line=line_of(HERE, comment)))


@triton.jit
def stray_kernel(x, out, skip, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + at, tl.load(x + at + skip) + 1)  # both stray


def stray(argument: str, access: Access, region: AddressSpace, lanes: int, program: int, element: int) -> Stray:
    return Stray(
        site=site("stray_kernel", argument, "both stray"),
        access=access,
        region=region,
        lanes=lanes,
        program=program,
        element=element,
    )


def test_strays_are_reported_by_region_and_change_no_memory(gpu: Gpu) -> None:
    around = torch.full((16,), 5.0)
    out = torch.full((16,), -1.0)
    stray_kernel[(2,)](around[2:12], out[4:10], 0, 8)
    assert out.tolist() == [-1] * 4 + [6] * 6 + [-1] * 6
    assert gpu.memory == [
        stray("x", Access.LOAD, AddressSpace.OUTSIDE_STORAGE, 2, 1, 14),
        stray("x", Access.LOAD, AddressSpace.OUTSIDE_VIEW, 4, 1, 10),
        stray("out", Access.STORE, AddressSpace.OUTSIDE_STORAGE, 4, 1, 12),
        stray("out", Access.STORE, AddressSpace.OUTSIDE_VIEW, 6, 0, 6),
    ]


def test_lanes_before_the_storage_read_zero(gpu: Gpu) -> None:
    out = torch.full((8,), -1.0)
    stray_kernel[(1,)](torch.full((8,), 5.0), out, -3, 8)
    assert out.tolist() == [1, 1, 1, 6, 6, 6, 6, 6]
    assert gpu.memory == [stray("x", Access.LOAD, AddressSpace.OUTSIDE_STORAGE, 3, 0, -3)]


def test_a_store_into_a_gap_between_rows_is_a_stray(gpu: Gpu) -> None:
    wide = torch.zeros(2, 6)
    out = wide[:, :4]
    stray_kernel[(1,)](torch.ones(8), out, 0, 8)
    assert wide.tolist() == [[2, 2, 2, 2, 0, 0], [2, 2, 0, 0, 0, 0]]
    assert gpu.memory == [stray("out", Access.STORE, AddressSpace.IN_GAP, 2, 0, 4)]


def test_an_empty_view_covers_nothing(gpu: Gpu) -> None:
    stray_kernel[(1,)](torch.ones(16)[3:3], torch.zeros(8), 0, 8)
    assert gpu.memory == [stray("x", Access.LOAD, AddressSpace.OUTSIDE_VIEW, 8, 0, 0)]


def test_an_empty_tensor_is_a_null_pointer(gpu: Gpu) -> None:
    out = torch.zeros(8)
    stray_kernel[(1,)](torch.ones(0), out, 0, 8)
    assert out.tolist() == [1] * 8
    assert gpu.memory == [stray("x", Access.LOAD, AddressSpace.NULL, 8, 0, 0)]


@triton.jit
def views_kernel(x, out, rows, columns, row_stride, column_stride, M: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.arange(0, N)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    at = row[:, None] * row_stride + column[None, :] * column_stride
    tl.store(out + row[:, None] * N + column[None, :], tl.load(x + at, mask=inside, other=-1.0))


VIEWS = {
    "contiguous": torch.arange(60.0).view(6, 10),
    "offset": torch.arange(80.0)[7:67].view(6, 10),
    "strided": torch.arange(90.0).view(6, 15)[:, 2:12],
    "transposed": torch.arange(60.0).view(10, 6).T,
    "expanded": torch.arange(10.0).expand(6, 10),
    "one value": torch.tensor(3.0).expand(6, 10),
    "every other": torch.arange(240.0).view(12, 20)[::2, ::2],
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_every_layout_are_read_as_in_torch(gpu: Gpu, name: str) -> None:
    x = VIEWS[name]
    out = torch.zeros(8, 16)
    views_kernel[(2,)](x, out, 6, 10, *x.stride(), 4, 16)
    expected = torch.full((8, 16), -1.0)
    expected[:6, :10] = x
    assert torch.equal(out, expected)
    assert gpu.memory == []


@triton.jit
def other_kernel(x, others, out, n, N: tl.constexpr):
    pid = tl.program_id(0)
    at = tl.arange(0, N)
    tl.store(out + pid * N + at, tl.load(x + at, mask=at < n, other=tl.load(others + pid)))


def test_masked_off_lanes_hold_their_programs_other_value(gpu: Gpu) -> None:
    x, others, out = torch.randn(8), torch.randn(3), torch.zeros(3, 8)
    other_kernel[(3,)](x, others, out, 5, 8)
    expected = others[:, None].expand(3, 8).clone()
    expected[:, :5] = x[:5]
    assert torch.equal(out, expected)
    assert gpu.memory == []


@triton.jit
def undefined_kernel(x, out, n, M: tl.constexpr, N: tl.constexpr):
    pid = tl.program_id(0)
    row, column = tl.arange(0, M), tl.arange(0, N)
    at = row[:, None] * N + column[None, :]
    if pid < 2:
        value = tl.load(x + at, mask=(row < n)[:, None])  # undefined
        tl.store(out + pid * M * N + at, value)


@pytest.mark.parametrize(("fill", "held"), [(LaneFill.ZERO, 0.0), (LaneFill.ODD, 101.0)])
def test_undefined_lanes_are_counted_and_filled(gpu: Gpu, fill: LaneFill, held: float) -> None:
    gpu.begin(fill)
    x, out = torch.randn(4, 8), torch.zeros(3, 4, 8)
    undefined_kernel[(3,)](x, out, 3, 4, 8)
    expected = x.clone()
    expected[3] = held
    assert torch.equal(out, torch.stack((expected, expected, torch.zeros(4, 8))))
    assert gpu.memory == [UndefinedLanes(site=site("undefined_kernel", "x", "undefined"), lanes=16)]


@triton.jit
def block_kernel(x, out, n, N: tl.constexpr):
    at = tl.make_block_ptr(x, (n,), (1,), (0,), (N,), (0,))
    unpadded = tl.load(at, boundary_check=(0,))  # unpadded
    padded = tl.load(at, boundary_check=(0,), padding_option="zero")
    tl.store(out + tl.arange(0, N), unpadded + padded)


def test_undefined_lanes_of_a_block_pointer_are_recognised(gpu: Gpu) -> None:
    if hasattr(tl, "atomic_poll"):
        pytest.skip("Triton has block pointers up to 3.8")
    block_kernel[(1,)](torch.randn(8), torch.zeros(8), 5, 8)
    (event,) = gpu.memory
    assert isinstance(event, UndefinedLanes)
    assert (event.site.argument, event.lanes, event.block_pointer) == ("x", 3, True)


@triton.jit
def fresh_kernel(x, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + at, tl.load(x + at))  # fresh


def test_reads_of_fresh_memory_are_reported(gpu: Gpu) -> None:
    with gpu.fresh:
        x, out = torch.empty(2, 8), torch.empty(2, 8)
    x[0] = 1
    x[1, ::2] = 2
    fresh_kernel[(2,)](x, out, 8)
    assert gpu.memory == [
        UninitialisedRead(
            site=site("fresh_kernel", "x", "fresh"),
            cells=4,
            first_cells=((1, 1), (1, 3), (1, 5), (1, 7)),
            program=1,
        )
    ]


@triton.jit
def table_kernel(out, table, EARLY: tl.constexpr, OWN: tl.constexpr, SIZE: tl.constexpr):
    """Store a table that all programs share, and read a place of it; without `OWN`, that of the next program."""
    row, cells = tl.program_id(0), tl.arange(0, SIZE)
    if EARLY:
        tl.store(out + row, tl.load(table + row))
    tl.store(table + cells, cells * 2 + tl.where(cells == row, 1 - OWN, 0))
    tl.debug_barrier()
    tl.store(out + row, tl.load(table + row))


@pytest.mark.parametrize("elements", [1, 1 << 20], ids=["one by one", "side by side"])
@pytest.mark.parametrize(
    ("early", "own", "dependences"),
    [(False, True, 0), (True, True, 1), (False, False, 1)],
    ids=["own store", "read before", "other bytes"],
)
def test_a_read_of_its_own_store_depends_on_others_that_store_other_bytes(
    gpu: Gpu, elements: int, dependences: int, *, early: bool, own: bool
) -> None:
    gpu.in_chunks_of(elements)
    out, table = torch.zeros(8, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    table_kernel[(8,)](out, table, EARLY=early, OWN=own, SIZE=8)
    overlaps = [event.same_bytes for event in gpu.memory if isinstance(event, Overlap)]
    assert overlaps == [own]
    assert len([event for event in gpu.memory if isinstance(event, OrderDependence)]) == dependences


@triton.jit
def counted_table_kernel(out, table, counter, SIZE: tl.constexpr):
    row, cells = tl.program_id(0), tl.arange(0, SIZE)
    tl.store(table + cells, cells * 2)
    tl.atomic_add(counter, 1)
    tl.debug_barrier()
    tl.store(out + row, tl.load(table + row) + tl.load(table + row))


def test_the_same_holds_for_a_launch_with_atomics(gpu: Gpu) -> None:
    out, table = torch.zeros(8, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    counted_table_kernel[(8,)](out, table, torch.zeros(1, dtype=torch.int32), SIZE=8)
    assert [type(event).__name__ for event in gpu.memory] == ["Overlap"]


@triton.jit
def publish_kernel(x, partial, out, KEEP: tl.constexpr):
    row = tl.program_id(0)
    if KEEP:
        old = tl.atomic_xchg(partial + row, tl.load(x + row))
        tl.store(out + row, old)
    else:
        tl.atomic_xchg(partial + row, tl.load(x + row))


@pytest.mark.parametrize("keep", [False, True])
def test_an_exchange_reads_fresh_memory_only_if_its_result_is_used(gpu: Gpu, *, keep: bool) -> None:
    with gpu.fresh:
        partial = torch.empty(4)
    publish_kernel[(4,)](torch.ones(4), partial, torch.zeros(4), KEEP=keep)
    assert partial.tolist() == [1.0] * 4
    assert [type(event) for event in gpu.memory] == [UninitialisedRead] * keep


@pytest.mark.parametrize(("dtype", "is_integer"), [(torch.float32, False), (torch.int32, True), (torch.int64, True)])
def test_a_read_of_fresh_memory_says_if_it_is_of_integers(gpu: Gpu, dtype: torch.dtype, *, is_integer: bool) -> None:
    with gpu.fresh:
        x = torch.empty(8, dtype=dtype)
    publish_kernel[(4,)](x, torch.zeros(4, dtype=dtype), torch.zeros(4), KEEP=False)
    assert [event.is_integer for event in gpu.memory if isinstance(event, UninitialisedRead)] == [is_integer]


@triton.jit
def wide_rows_kernel(out, D: tl.constexpr, WIDE: tl.constexpr):
    tl.store(out + tl.program_id(0) * D + tl.arange(0, WIDE), 1.0)


@pytest.mark.parametrize(("stride", "wide", "is_whole"), [(0, 4, True), (4, 8, False)])
def test_an_overlap_says_if_all_that_is_stored_is_stored_twice(
    gpu: Gpu, stride: int, wide: int, *, is_whole: bool
) -> None:
    wide_rows_kernel[(3,)](torch.zeros(16), D=stride, WIDE=wide)
    assert [(event.same_bytes, event.is_whole) for event in gpu.memory if isinstance(event, Overlap)] == [
        (True, is_whole)
    ]
