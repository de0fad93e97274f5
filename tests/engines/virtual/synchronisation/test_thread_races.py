"""Races between the warps of one program: cells, warps, lines, and what orders accesses."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false, reportUnknownMemberType=false

from collections.abc import Callable

import pytest
import torch
import triton
import triton.language as tl

from harness.model.run import Access, AccessSite, NarrowAtomic, OrderDependence, Source, ThreadRace
from tests.engines.conftest import Gpu, line_of

pytestmark = pytest.mark.slow

BLOCK = 128


def source(comment: str) -> Source:
    return Source(file=__file__, line=line_of(__file__, comment))


def races(gpu: Gpu) -> list[tuple[int, int, tuple[int, ...]]]:
    """Return lines and warps of each event, which must all be races between threads."""
    found = list[tuple[int, int, tuple[int, ...]]]()
    for event in gpu.memory:
        assert isinstance(event, ThreadRace)
        assert event.earlier is not None
        assert event.site.source is not None
        found.append((event.earlier.line, event.site.source.line, event.warps))
    return found


# --- a store, then a load of a neighbour ---


@triton.jit
def reload_kernel(x, y, SHIFT: tl.constexpr, WAITS: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(x + o, o)  # stores
    if WAITS:
        tl.debug_barrier()
    tl.store(y + o, tl.load(x + o + SHIFT, mask=o + SHIFT < BLOCK, other=0))  # loads


def reload(*, shift: int = 1, waits: bool = False, block: int = BLOCK, num_warps: int = 4) -> torch.Tensor:
    x, y = torch.zeros(block, dtype=torch.int32), torch.zeros(block, dtype=torch.int32)
    reload_kernel[(1,)](x, y, SHIFT=shift, WAITS=waits, BLOCK=block, num_warps=num_warps)
    return y


def test_a_load_of_what_another_warp_stores_is_a_race(gpu: Gpu) -> None:
    y = reload()
    assert gpu.memory == [
        ThreadRace(
            site=AccessSite(kernel="reload_kernel", launch=0, argument="x", source=source("loads")),
            earlier=source("stores"),
            accesses=(Access.STORE, Access.LOAD),
            cells=3,
            first_cells=((32,), (64,), (96,)),
            program=0,
            positions=((32,), (31,)),
            warps=(1, 0),
        )
    ]
    assert y.tolist() == [*range(1, BLOCK), 0]  # the trace leaves memory as it was


@pytest.mark.parametrize(
    "launch",
    [
        lambda: reload(waits=True),
        lambda: reload(shift=0),
        lambda: reload(shift=BLOCK),
        lambda: reload(num_warps=1),
    ],
    ids=["a barrier", "the same element", "no common cell", "one warp"],
)
def test_ordered_accesses_are_no_race(gpu: Gpu, launch: Callable[[], object]) -> None:
    launch()
    assert gpu.memory == []
    assert [one.threads_unknown for one in gpu.seen] == [""]


@pytest.mark.parametrize(("num_warps", "cells"), [(2, 1), (4, 3), (8, 3)])
def test_the_number_of_warps_decides(gpu: Gpu, num_warps: int, cells: int) -> None:
    reload(num_warps=num_warps)  # eight warps hold each element of 128 twice, and one copy is stored
    (event,) = gpu.memory
    assert isinstance(event, ThreadRace)
    assert event.cells == cells


# --- loads before a store ---


@triton.jit
def in_place_kernel(x, SUMS: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    here = tl.load(x + (BLOCK - 1 - o))  # reads
    if SUMS:
        here += tl.sum(here, axis=0)
    tl.store(x + o, here)  # overwrites


def test_a_store_over_what_another_warp_still_loads_is_a_race(gpu: Gpu) -> None:
    x = torch.arange(BLOCK)
    in_place_kernel[(1,)](x, SUMS=False, BLOCK=BLOCK)
    assert x.tolist() == list(range(BLOCK))[::-1]
    assert races(gpu) == [(source("reads").line, source("overwrites").line, (3, 0))]


def test_a_reduction_over_warps_is_a_barrier(gpu: Gpu) -> None:
    in_place_kernel[(1,)](torch.arange(BLOCK), SUMS=True, BLOCK=BLOCK)
    assert gpu.memory == []


@triton.jit
def tiles_kernel(x, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + o, tl.load(x + o) + tl.load(x + o + 1))


def test_programs_that_meet_are_traced_one_by_one(gpu: Gpu) -> None:
    tiles_kernel[(3,)](torch.arange(3 * BLOCK + 1), BLOCK=BLOCK)
    assert [event.program for event in gpu.memory if isinstance(event, ThreadRace)] == [0]
    assert any(isinstance(event, OrderDependence) for event in gpu.memory)


# --- loops ---


@triton.jit
def passes_kernel(x, passes, WAITS: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    for _ in range(passes):
        following = tl.load(x + o + 1, mask=o + 1 < BLOCK, other=0)  # next
        if WAITS:
            tl.debug_barrier()
        tl.store(x + o, following)  # this
        if WAITS:
            tl.debug_barrier()


def test_trips_of_a_loop_race_with_each_other(gpu: Gpu) -> None:
    passes_kernel[(1,)](torch.arange(BLOCK), 3, WAITS=False, BLOCK=BLOCK)
    load, store = source("next").line, source("this").line
    assert races(gpu) == [(load, store, (0, 1)), (store, load, (1, 0))]


def test_barriers_in_a_loop_order_its_trips(gpu: Gpu) -> None:
    passes_kernel[(1,)](torch.arange(BLOCK), 3, WAITS=True, BLOCK=BLOCK)
    assert gpu.memory == []


# --- two stores, and tiles of other shapes ---


@triton.jit
def twice_kernel(x, LARGE: tl.constexpr, SMALL: tl.constexpr):
    o, p = tl.arange(0, LARGE), tl.arange(0, SMALL)
    tl.store(x + o, o)  # all
    tl.store(x + p, -p)  # some


def test_stores_of_tiles_of_other_shapes_race(gpu: Gpu) -> None:
    twice_kernel[(2,)](torch.zeros(256, dtype=torch.int32), LARGE=256, SMALL=128)
    (event,) = (event for event in gpu.memory if isinstance(event, ThreadRace))
    # Of the large tile a warp has 64 neighbours, of the small one 32: only the first 32 cells have one owner.
    assert (event.earlier, event.site.source) == (source("all"), source("some"))
    assert (event.cells, event.first_cells[0], event.warps) == (96, (32,), (0, 1))
    assert (event.accesses, event.program) == ((Access.STORE, Access.STORE), 0)


# --- copies ---


@triton.jit
def copies_kernel(x, y, SPREADS: tl.constexpr, BRANCHES: tl.constexpr, BLOCK: tl.constexpr):
    tl.store(x, 5)  # one thread stores
    n = tl.load(x)  # all threads load
    if SPREADS:
        tl.store(y + tl.arange(0, BLOCK), n)
    if BRANCHES and n > 0:
        tl.store(y + tl.arange(0, BLOCK), 1)
    tl.store(x + 1, n)


@pytest.mark.parametrize(("spreads", "branches"), [(True, False), (False, True)])
def test_a_scalar_that_every_warp_uses_races_with_the_store_before(gpu: Gpu, spreads: bool, branches: bool) -> None:  # noqa: FBT001 - parameters
    x, y = torch.zeros(2, dtype=torch.int32), torch.zeros(BLOCK, dtype=torch.int32)
    copies_kernel[(1,)](x, y, SPREADS=spreads, BRANCHES=branches, BLOCK=BLOCK)
    assert races(gpu) == [(source("one thread stores").line, source("all threads load").line, (0, 1))]


def test_a_scalar_that_only_the_storing_thread_uses_is_no_race(gpu: Gpu) -> None:
    x, y = torch.zeros(2, dtype=torch.int32), torch.zeros(BLOCK, dtype=torch.int32)
    copies_kernel[(1,)](x, y, SPREADS=False, BRANCHES=False, BLOCK=BLOCK)
    assert gpu.memory == []


@triton.jit
def counter_kernel(counter, y, BLOCK: tl.constexpr):
    n = tl.load(counter)  # reads the counter
    tl.store(y + tl.arange(0, BLOCK), n)
    tl.store(counter, n + 1)  # counts on


def test_a_counter_must_not_change_before_every_warp_has_read_it(gpu: Gpu) -> None:
    counter_kernel[(1,)](torch.zeros(1, dtype=torch.int32), torch.zeros(BLOCK, dtype=torch.int32), BLOCK=BLOCK)
    assert races(gpu) == [(source("reads the counter").line, source("counts on").line, (1, 0))]


@triton.jit
def masked_counter_kernel(counter, N, BY_VALUE: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    n = tl.load(counter)  # reads the number
    tl.store(counter + o * 0, n + 1, mask=(o < n) & (o < N) if BY_VALUE else o < N)  # stores it


@pytest.mark.parametrize(("size", "by_value", "found"), [(1, False, False), (1, True, True), (BLOCK, False, True)])
def test_a_number_matters_to_the_warps_whose_elements_are_stored(
    gpu: Gpu,
    size: int,
    by_value: bool,  # noqa: FBT001 - a parameter
    found: bool,  # noqa: FBT001 - as above
) -> None:
    masked_counter_kernel[(1,)](torch.ones(1, dtype=torch.int32), size, BY_VALUE=by_value, BLOCK=BLOCK)
    lines = {(line, other) for line, other, _ in races(gpu)}
    assert ((source("reads the number").line, source("stores it").line) in lines) == found


# --- what is not decided ---


@triton.jit
def pointed_kernel(table, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    x = tl.load(table).to(tl.pointer_type(tl.int32))
    tl.store(x + o, o)
    tl.store(x + o + 1, o)


def test_pointers_from_memory_are_not_decided(gpu: Gpu) -> None:
    x = torch.zeros(2 * BLOCK, dtype=torch.int32)
    pointed_kernel[(1,)](torch.tensor([x.data_ptr()]), BLOCK=BLOCK)
    assert [one.threads_unknown for one in gpu.seen] == ["a kernel that loads pointers"]


# --- atomics of one program ---


@triton.jit
def count_kernel(x, SCOPE: tl.constexpr, EACH: tl.constexpr):
    tl.atomic_add(x + tl.program_id(0) * EACH, 1, sem="relaxed", scope=SCOPE)  # counts


@pytest.mark.parametrize(("scope", "each", "found"), [("cta", 0, True), ("cta", 1, False), ("gpu", 0, False)])
def test_programs_that_share_a_cell_need_a_wider_scope(any_order: Gpu, scope: str, each: int, found: bool) -> None:  # noqa: FBT001 - a parameter
    x = torch.zeros(3, dtype=torch.int32)
    count_kernel[(3,)](x, SCOPE=scope, EACH=each)
    events = [event for event in any_order.memory if isinstance(event, NarrowAtomic)]
    assert events == any_order.memory
    assert [(event.first_cells, event.site.source) for event in events] == [(((0,),), source("counts"))] * found
