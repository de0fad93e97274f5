"""Programs that share work: tickets, look-back, semaphores, stream-K; and loops that do not wait."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false, reportUnknownMemberType=false

from types import SimpleNamespace

import pytest
import torch
import triton
import triton.language as tl

from harness.engines.triton.driver import LaunchRequest
from harness.engines.ttir.parser import parse
from harness.engines.ttir.waiting_kernels import may_wait
from harness.model.case import ProgramOrder
from harness.model.run import OrderDependence, Overlap
from tests.engines.conftest import ONE_PER_SM, ORDERS, Gpu, counters

# --- shared work ---


@triton.jit
def ticket_kernel(counter, out, n):
    ticket = tl.atomic_add(counter, 1)
    while ticket < n:
        tl.store(out + ticket, ticket * ticket)
        ticket = tl.atomic_add(counter, 1, sem="relaxed")


def test_each_ticket_is_taken_once(any_order: Gpu) -> None:
    out = counters(50)
    ticket_kernel[(7,)](counters(), out, 50)
    assert out.tolist() == [at * at for at in range(50)]
    assert any_order.memory == []


@triton.jit
def grouped_kernel(counter, table, sizes, out, n, ADDS: tl.constexpr, N: tl.constexpr):
    """Each ticket is a group, whose tensor is found through a table of addresses."""
    lanes = tl.arange(0, N)
    group = tl.atomic_add(counter, 1)
    while group < n:
        base = tl.load(table + group).to(tl.pointer_type(tl.float32))
        inside = lanes < tl.load(sizes + group)
        values = tl.load(base + lanes, mask=inside, other=0.0)
        tl.store(out + group * N + lanes, values)
        if ADDS:
            tl.atomic_add(base + lanes, 1.0, mask=inside)
        else:
            tl.store(base + lanes, values + 1.0, mask=inside)
        group = tl.atomic_add(counter, 1)


@pytest.mark.parametrize("adds", [True, False])
def test_programs_with_tickets_follow_a_table_of_addresses(any_order: Gpu, adds: bool) -> None:  # noqa: FBT001
    groups = [torch.randn(size) for size in (3, 5, 8, 1)]
    before = [group.clone() for group in groups]
    table, sizes = torch.tensor([group.data_ptr() for group in groups]), torch.tensor([3, 5, 8, 1])
    out = torch.zeros(4, 8)
    grouped_kernel[(3,)](counters(), table, sizes, out, 4, adds, 8)
    for row, group, was in zip(out, groups, before, strict=True):
        assert torch.equal(row[: len(was)], was)
        assert torch.equal(group, was + 1)
    assert any_order.memory == []


@pytest.mark.alone("its programs race")
def test_a_race_through_a_table_of_addresses_is_detected(any_order: Gpu) -> None:
    only = torch.randn(8)
    table = torch.tensor([only.data_ptr()] * 4)
    grouped_kernel[(3,)](counters(), table, torch.full((4,), 8), torch.zeros(4, 8), 4, False, 8)  # noqa: FBT003
    sites = {(type(event), event.site.argument) for event in any_order.memory}
    assert sites == {(kind, "a tensor reached by its address") for kind in (Overlap, OrderDependence)}


@triton.jit
def look_back_kernel(ticket, states, x, out, BLOCK: tl.constexpr):
    tile = tl.atomic_add(ticket, 1)
    at = tile * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at)
    total = tl.sum(values, 0).to(tl.int64)
    tl.atomic_xchg(states + tile, (total << 2) | 1)  # an aggregate
    before = tl.zeros((), tl.int64)
    earlier = tile - 1
    while earlier >= 0:
        state = tl.atomic_add(states + earlier, 0)
        while state & 3 == 0:
            state = tl.atomic_add(states + earlier, 0)
        before += state >> 2
        earlier = tl.where(state & 3 == 2, -1, earlier - 1)
    tl.atomic_xchg(states + tile, ((before + total) << 2) | 2)  # a prefix
    tl.store(out + at, before + tl.cumsum(values, 0))


def test_a_prefix_sum_with_look_back_is_correct(any_order: Gpu) -> None:
    x = torch.randint(0, 100, (40 * 32,))
    out = torch.zeros_like(x)
    look_back_kernel[(40,)](counters(), torch.zeros(40, dtype=torch.int64), x, out, 32, num_warps=ONE_PER_SM)
    assert torch.equal(out, x.cumsum(0))
    assert any_order.memory == []


@triton.jit
def split_k_kernel(x, w, y, locks, K, SPLITS: tl.constexpr, TILE: tl.constexpr):
    column, split = tl.program_id(0), tl.program_id(1)
    rows, columns = tl.arange(0, TILE), column * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), tl.float32)
    for start in range(split * TILE, K, SPLITS * TILE):
        depth = start + tl.arange(0, TILE)
        total += tl.dot(
            tl.load(x + rows[:, None] * K + depth[None, :]),
            tl.load(w + depth[:, None] * (TILE * tl.num_programs(0)) + columns[None, :]),
            input_precision="ieee",
        )
    while tl.atomic_cas(locks + column, split, split, sem="acquire") != split:
        pass
    at = y + rows[:, None] * (TILE * tl.num_programs(0)) + columns[None, :]
    if split > 0:
        total += tl.load(at)
    tl.store(at, total)
    tl.debug_barrier()
    tl.atomic_xchg(locks + column, split + 1, sem="release")


def test_split_k_parts_are_added_in_turn_under_a_semaphore(any_order: Gpu) -> None:
    x, w = torch.randn(16, 160), torch.randn(160, 48)
    y = torch.empty(16, 48)
    split_k_kernel[(3, 4)](x, w, y, counters(3), 160, 4, 16, num_warps=1)
    torch.testing.assert_close(y, x @ w, rtol=1e-5, atol=1e-4)
    assert any_order.memory == []


@triton.jit
def stream_k_kernel(x, partial, flags, y, STEPS: tl.constexpr, SHARE: tl.constexpr, BLOCK: tl.constexpr):
    """Each program sums a share of all steps; the program that ends a tile adds the parts of earlier programs."""
    pid = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    step, end = pid * SHARE, (pid + 1) * SHARE
    while step < end:
        tile = step // STEPS
        last = tl.minimum(end, (tile + 1) * STEPS)
        total = tl.zeros((BLOCK,), tl.float32)
        first = step
        while step < last:
            total += tl.load(x + step * BLOCK + at)
            step += 1
        if last == (tile + 1) * STEPS:
            missing = first - tile * STEPS
            other = pid - 1
            while missing > 0:
                while tl.atomic_cas(flags + other, 1, 1) != 1:
                    pass
                total += tl.load(partial + other * BLOCK + at)
                missing -= SHARE
                other -= 1
            tl.store(y + tile * BLOCK + at, total)
        else:
            tl.store(partial + pid * BLOCK + at, total)
            tl.atomic_xchg(flags + pid, 1)


@pytest.mark.parametrize("share", [2, 3, 4, 9])
def test_stream_k_adds_the_parts_of_each_tile(any_order: Gpu, share: int) -> None:
    tiles, steps, block = 8, 9, 16
    programs = tiles * steps // share
    x = torch.randn(tiles, steps, block)
    y = torch.zeros(tiles, block)
    stream_k_kernel[(programs,)](x, torch.empty(programs, block), counters(programs), y, steps, share, block)
    torch.testing.assert_close(y, x.sum(1))
    assert any_order.memory == []


# --- loops of branches ---

BRANCHES = """
module {
  tt.func public @kernel(%counter: !tt.ptr<i32>, %out: !tt.ptr<i32>, %n: i32) attributes {noinline = false} {
    %c0_i32 = arith.constant 0 : i32
    %c1_i32 = arith.constant 1 : i32
    %true = arith.constant true
    %pid = tt.get_program_id x : i32
    %0 = tt.atomic_rmw add, acq_rel, gpu, %counter, %c1_i32, %true : (!tt.ptr<i32>, i32, i1) -> i32
    cf.br ^bb1
  ^bb1:
    %1 = tt.atomic_rmw add, acq_rel, gpu, %counter, %c0_i32, %true : (!tt.ptr<i32>, i32, i1) -> i32
    %2 = arith.cmpi slt, %1, %n : i32
    cf.cond_br %2, ^bb1, ^bb2(%c0_i32 : i32)
  ^bb2(%3: i32):
    %4 = arith.addi %3, %c1_i32 : i32
    %5 = arith.cmpi slt, %4, %n : i32
    cf.cond_br %5, ^bb2(%4 : i32), ^bb3
  ^bb3:
    %6 = tt.addptr %out, %pid : !tt.ptr<i32>, i32
    tt.store %6, %4 : !tt.ptr<i32>
    tt.return
  }
}
"""


def launch_branches(gpu: Gpu, programs: int, out: torch.Tensor) -> None:
    """Launch the TTIR text as Triton would launch a kernel."""
    names = ["counter", "out", "n"]
    function = SimpleNamespace(__name__="kernel", arg_names=names)
    signature = dict(zip(names, ["*i32", "*i32", "i32"], strict=True))
    gpu.launches(
        LaunchRequest(
            ttir=BRANCHES,
            grid=(programs, 1, 1),
            stream=0,
            source=SimpleNamespace(fn=function, signature=signature, constants={}, attrs={}),
            metadata=SimpleNamespace(num_warps=ONE_PER_SM, num_stages=1),
            arguments=[counters(), out, programs],
        )
    )


def test_a_loop_of_branches_can_wait(gpu: Gpu) -> None:
    out = counters(4)
    launch_branches(gpu, 4, out)
    assert out.tolist() == [4] * 4
    assert gpu.memory == []


def test_a_loop_of_branches_can_deadlock(gpu: Gpu) -> None:
    found = gpu.deadlock(lambda: launch_branches(gpu, 5, counters(5)))
    assert [(wait.argument, wait.index, wait.programs) for wait in found.waits] == [("counter", (0,), 4)]


def test_only_unbounded_loops_that_poll_may_wait() -> None:
    assert may_wait(parse(BRANCHES))
    assert not may_wait(parse(BRANCHES.replace("cf.cond_br %2, ^bb1, ^bb2", "cf.cond_br %2, ^bb2(%n : i32), ^bb2")))


# --- launches that do not wait ---


@triton.jit
def mixed_kernel(cell, out):
    if tl.program_id(0) == 0:
        tl.store(cell, 7)  # plain
    else:
        tl.atomic_add(cell, 1)  # atomic
    turn = tl.atomic_add(out, 1)
    while turn > 100:
        turn = tl.atomic_add(out, 1)


def test_an_unordered_atomic_and_plain_store_are_reported(gpu: Gpu) -> None:
    mixed_kernel[(2,)](counters(), counters())
    assert [(type(event).__name__, event.site.argument) for event in gpu.memory] == [("Overlap", "cell")]


@triton.jit
def lock_step_kernel(counter, out, order, N: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(out + pid, tl.atomic_add(counter, 1))
    tl.store(order + tl.arange(0, N), tl.zeros((N,), tl.int32) + pid)


@pytest.mark.parametrize("order", ORDERS)
def test_lock_step_follows_the_order_of_the_case(gpu: Gpu, order: ProgramOrder) -> None:
    gpu.begin(order=order)
    tickets, last = counters(6), counters(4)
    lock_step_kernel[(6,)](counters(), tickets, last, 4)
    began = tickets.argsort().tolist()
    assert sorted(began) == list(range(6))
    assert last.tolist() == [began[-1]] * 4
    expected = {ProgramOrder.FORWARD: [*range(6)], ProgramOrder.REVERSED: [*range(5, -1, -1)]}
    assert began == expected.get(order, began)


@triton.jit
def search_kernel(sorted_x, wanted, out, n):
    low, high = 0, n
    key = tl.load(wanted + tl.program_id(0))
    while low < high:
        middle = (low + high) // 2
        if tl.load(sorted_x + middle) < key:
            low = middle + 1
        else:
            high = middle
    tl.store(out + tl.program_id(0), low)


def test_an_unbounded_loop_without_polling_runs_in_lock_step(gpu: Gpu) -> None:
    x = torch.arange(0, 100, 3, dtype=torch.int32)
    wanted = torch.tensor([0, 1, 50, 99, 100, 7], dtype=torch.int32)
    out = counters(6)
    search_kernel[(6,)](x, wanted, out, len(x))
    assert out.tolist() == torch.searchsorted(x, wanted).tolist()
    assert gpu.memory == []


def test_launches_record_whether_they_have_atomics(gpu: Gpu) -> None:
    lock_step_kernel[(1,)](counters(), counters(), counters(4), 4)
    search_kernel[(1,)](counters(4), counters(), counters(), 4)
    assert [launch.atomics for launch in gpu.seen] == [True, False]
