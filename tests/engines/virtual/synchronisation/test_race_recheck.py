"""Races in kernels with atomics but without waiting: accesses that acquire and release order are not reported."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false, reportUnknownMemberType=false

from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from harness.engines.virtual.synchronisation import race_recheck
from harness.engines.virtual.synchronisation.scheduler import Scheduler
from harness.model.run import AccessSite, OrderDependence, Overlap, Source
from tests.engines.conftest import Gpu, counters, dependences, line_of

BLOCK = 16
PROGRAMS = 9


def site(kernel: str, argument: str, comment: str) -> AccessSite:
    return AccessSite(
        kernel=kernel, launch=0, argument=argument, source=Source(file=__file__, line=line_of(__file__, comment))
    )


@pytest.fixture
def rechecks(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of programs of each recheck."""
    del gpu
    run, counts = Scheduler.run, list[int]()

    def counted(self: Scheduler, values: Any, ids: Any) -> Any:
        counts.append(len(ids))
        return run(self, values, ids)

    monkeypatch.setattr(Scheduler, "run", counted)
    return counts


# --- an atomic and a plain access to one cell ---


@triton.jit
def zero_by_first_kernel(x, out, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    if pid == 0:
        tl.store(out, 0.0)  # zeroes
    tl.atomic_add(out, tl.sum(tl.load(x + at), 0))  # adds


def zero_by_first(programs: int = PROGRAMS) -> torch.Tensor:
    x, out = torch.ones(programs * BLOCK), torch.zeros(1)
    zero_by_first_kernel[(programs,)](x, out, BLOCK)
    return out


def test_a_sum_zeroed_by_the_first_program_is_reported_in_any_order(any_order: Gpu) -> None:
    zero_by_first()
    events = [event for event in any_order.memory if isinstance(event, Overlap)]
    assert events == any_order.memory
    assert {(event.same_bytes, event.atomic, event.first_cells, event.programs[0]) for event in events} == {
        (False, True, ((0,),), 0)
    }
    store, add = (site("zero_by_first_kernel", "out", comment) for comment in ("zeroes", "adds"))
    assert {store} <= {event.site for event in events} <= {store, add}


def test_values_are_those_of_lock_step_after_rechecks(gpu: Gpu, rechecks: list[int]) -> None:
    del gpu
    assert zero_by_first().tolist() == [PROGRAMS * BLOCK]
    assert rechecks == [PROGRAMS, PROGRAMS]


@triton.jit
def read_total_kernel(x, total, out, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    tl.atomic_add(total, tl.sum(tl.load(x + pid * BLOCK + tl.arange(0, BLOCK)), 0))
    if pid == 0:
        tl.store(out, tl.load(total))  # too early


def test_a_sum_read_before_all_have_added_is_reported_in_any_order(any_order: Gpu) -> None:
    read_total_kernel[(PROGRAMS,)](torch.ones(PROGRAMS * BLOCK), torch.zeros(1), torch.zeros(1), BLOCK)
    (event,) = any_order.memory
    assert isinstance(event, OrderDependence)
    assert (event.site, event.atomic, event.first_cells, event.programs[0]) == (
        site("read_total_kernel", "total", "too early"),
        True,
        ((0,),),
        0,
    )


@triton.jit
def in_one_workspace_kernel(counts, sums, OVERLAPS: tl.constexpr):
    pid = tl.program_id(0)
    tl.atomic_add(counts, 1)  # counts
    tl.store(sums + pid * (1 - OVERLAPS), pid)  # into the workspace


@pytest.mark.parametrize("overlaps", [False, True])
def test_arguments_that_share_a_storage_are_compared_by_cells(gpu: Gpu, rechecks: list[int], *, overlaps: bool) -> None:
    workspace = counters(1 + PROGRAMS)
    sums = workspace if overlaps else workspace[1:]
    in_one_workspace_kernel[(PROGRAMS,)](workspace, sums, overlaps)
    lines = {event.site.source and event.site.source.line for event in gpu.memory}
    assert lines == ({line_of(__file__, "into the workspace"), line_of(__file__, "counts")} if overlaps else set())
    assert bool(rechecks) is overlaps


@triton.jit
def own_cell_kernel(out):
    at = out + tl.program_id(0)
    tl.store(at, 0)
    tl.atomic_add(at, 2)
    tl.store(at, tl.load(at) * 2)


def test_a_program_may_mix_accesses_to_its_own_cells(gpu: Gpu, rechecks: list[int]) -> None:
    out = counters(PROGRAMS)
    own_cell_kernel[(PROGRAMS,)](out)
    assert (out.tolist(), gpu.memory, rechecks) == ([4] * PROGRAMS, [], [])


# --- order by acquire and release ---


@triton.jit
def last_arriver_kernel(x, partial, count, out, n, SEM: tl.constexpr, SCOPE: tl.constexpr, P: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(partial + pid, tl.sum(tl.load(x + pid * 16 + tl.arange(0, 16)), 0))
    if tl.atomic_add(count, 1, sem=SEM, scope=SCOPE) == n - 1:
        at = tl.arange(0, P)
        tl.store(out, tl.sum(tl.load(partial + at, mask=at < n, other=0.0), 0))  # of all
        tl.store(count, 0)


def last_arriver(sem: str = "acq_rel", scope: str = "gpu", programs: int = PROGRAMS) -> None:
    x, out = torch.ones(programs * BLOCK), torch.zeros(1)
    grid, width = (programs,), triton.next_power_of_2(programs)
    last_arriver_kernel[grid](x, torch.empty(programs), counters(), out, programs, sem, scope, width)
    assert out.tolist() == [programs * BLOCK]


@pytest.mark.parametrize("scope", ["gpu", "sys"])
def test_the_last_program_may_read_all_stores_and_reset_the_counter(any_order: Gpu, scope: str) -> None:
    last_arriver(scope=scope)
    assert any_order.memory == []


@pytest.mark.parametrize(
    ("sem", "scope"), [("relaxed", "gpu"), ("acquire", "gpu"), ("release", "gpu"), ("acq_rel", "cta")]
)
def test_a_ticket_without_acquire_and_release_orders_nothing(any_order: Gpu, sem: str, scope: str) -> None:
    last_arriver(sem, scope)
    found = {
        (event.site.argument, event.site.source) for event in any_order.memory if isinstance(event, OrderDependence)
    }
    assert found == {("partial", Source(file=__file__, line=line_of(__file__, "of all")))}


@triton.jit
def last_of_sums_kernel(x, total, count, out, BLOCK: tl.constexpr):
    tl.atomic_add(total, tl.sum(tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)), 0), sem="relaxed")
    if tl.atomic_add(count, 1) == tl.num_programs(0) - 1:
        tl.store(out, tl.load(total))


def test_the_last_program_may_read_a_sum_of_all(any_order: Gpu) -> None:
    out = torch.zeros(1)
    last_of_sums_kernel[(PROGRAMS,)](torch.ones(PROGRAMS * BLOCK), torch.zeros(1), counters(), out, BLOCK)
    assert (out.tolist(), any_order.memory) == ([PROGRAMS * BLOCK], [])


@triton.jit
def neighbours_kernel(x, count, n):
    pid = tl.program_id(0)
    tl.store(x + pid, pid)
    tl.atomic_add(count, 1)
    tl.store(x + pid, tl.load(x + (pid + 1) % n))  # not a barrier


def test_an_atomic_without_a_wait_is_no_barrier(any_order: Gpu) -> None:
    neighbours_kernel[(PROGRAMS,)](counters(PROGRAMS), counters(), PROGRAMS)
    assert dependences(any_order) == {("x", line_of(__file__, "not a barrier"))}


@triton.jit
def reduced_kernel(box, total, out):
    box.atomic_add([0], tl.full((8,), 1, tl.int32))
    tl.atomic_add(total, 1)
    tl.store(out + tl.program_id(0), tl.load(total))


def test_memory_behind_tensor_descriptors_is_restored_after_rechecks(gpu: Gpu, rechecks: list[int]) -> None:
    box = counters(8)
    reduced_kernel[(PROGRAMS,)](TensorDescriptor.from_tensor(box, [8]), counters(), counters(PROGRAMS))
    assert (box.tolist(), rechecks, len(gpu.memory)) == ([PROGRAMS] * 8, [PROGRAMS] * 2, 1)


# --- launches without a recheck ---


@triton.jit
def histogram_kernel(x, counts, BLOCK: tl.constexpr):
    tl.atomic_add(counts + tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)), 1)


def test_a_histogram_takes_the_fast_path(any_order: Gpu, rechecks: list[int]) -> None:
    counts = counters(4)
    histogram_kernel[(PROGRAMS,)](torch.arange(PROGRAMS * BLOCK, dtype=torch.int32) % 4, counts, BLOCK)
    assert (counts.tolist(), any_order.memory, rechecks) == ([PROGRAMS * BLOCK // 4] * 4, [], [])


@triton.jit
def split_k_kernel(a, b, c, K, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    along = tl.arange(0, BLOCK)
    left = a + along[:, None] * K + tl.program_id(0) * BLOCK + along[None, :]
    right = b + (tl.program_id(0) * BLOCK + along[:, None]) * BLOCK + along[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for _ in range(0, K, SPLIT * BLOCK):
        total += tl.dot(tl.load(left), tl.load(right), input_precision="ieee")
        left += SPLIT * BLOCK
        right += SPLIT * BLOCK * BLOCK
    tl.atomic_add(c + along[:, None] * BLOCK + along[None, :], total)


def test_a_split_k_product_takes_the_fast_path(any_order: Gpu, rechecks: list[int]) -> None:
    a, b, c = torch.randn(BLOCK, 8 * BLOCK), torch.randn(8 * BLOCK, BLOCK), torch.zeros(BLOCK, BLOCK)
    split_k_kernel[(4,)](a, b, c, 8 * BLOCK, 4, BLOCK)
    torch.testing.assert_close(c, a @ b)
    assert (any_order.memory, rechecks) == ([], [])


def test_kernels_with_only_atomics_are_not_filtered(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race_recheck.RecheckedLaunch, "run", None)
    histogram_kernel[(2,)](counters(2 * BLOCK), counters(), BLOCK)
    assert gpu.memory == []


# --- launches too large for a recheck of all programs ---


def test_a_large_launch_is_rechecked_with_conflicting_programs_only(
    gpu: Gpu, rechecks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race_recheck, "MOST_RECHECKED_ACCESSES", 12)
    zero_by_first(100)
    assert rechecks == [2, 2]
    (event,) = gpu.memory
    assert isinstance(event, Overlap)
    assert event.atomic


def test_the_last_program_of_a_large_launch_may_read_the_sum(
    gpu: Gpu, rechecks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race_recheck, "MOST_RECHECKED_ACCESSES", 12)
    last_arriver(programs=100)
    assert (len(rechecks), max(rechecks) < 10, gpu.memory) == (2, True, [])


def test_without_a_recheck_the_lock_step_conflicts_are_reported(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.engines.virtual.synchronisation.clocks.LARGEST_BYTES", 0)
    last_arriver()
    assert {type(event) for event in gpu.memory} == {OrderDependence}
