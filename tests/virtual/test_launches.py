"""What memory sees of whole launches: overlaps, dependences, strays, undefined lanes, atomics."""

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
    MemoryEvent,
    OrderDependence,
    Overlap,
    Region,
    Site,
    Source,
    Stray,
    UndefinedLanes,
    UninitialisedRead,
)
from tests.virtual.conftest import Gpu, line_of

HERE = __file__


def site(kernel: str, argument: str, comment: str) -> Site:
    return Site(kernel=kernel, launch=0, argument=argument, source=Source(file=HERE, line=line_of(HERE, comment)))


@triton.jit
def overlap_kernel(x, y, out, n, N: tl.constexpr):
    at = tl.program_id(0) * (N - 1) + tl.arange(0, N)
    value = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + at, value, mask=at < n)  # same bytes
    tl.store(y + at, value + tl.program_id(0), mask=at < n)  # other bytes


@pytest.mark.parametrize("chunk", [1, 16, 1 << 19])
def test_stores_of_two_programs_to_one_element_are_an_overlap(gpu: Gpu, chunk: int) -> None:
    gpu.in_chunks_of(chunk)
    x, y, out = torch.randn(22), torch.zeros(22), torch.zeros(2, 11)
    overlap_kernel[(3,)](x, y, out, 22, 8)
    assert torch.equal(out.view(-1), x)
    assert gpu.memory == [
        Overlap(
            site=site("overlap_kernel", "out", "same bytes"),
            same_bytes=True,
            cells=2,
            first_cells=((0, 7), (1, 3)),
            programs=(0, 1),
        ),
        Overlap(
            site=site("overlap_kernel", "y", "other bytes"),
            same_bytes=False,
            cells=2,
            first_cells=((7,), (14,)),
            programs=(0, 1),
        ),
    ]


@triton.jit
def shift_kernel(x):
    pid = tl.program_id(0)
    value = tl.load(x + pid)  # read
    tl.store(x + pid + 1, value + 1)


@pytest.mark.parametrize("chunk", [1, 2, 1 << 19])
def test_what_one_program_reads_and_another_stores_depends_on_the_order(gpu: Gpu, chunk: int) -> None:
    gpu.in_chunks_of(chunk)
    x = torch.zeros(5)
    shift_kernel[(4,)](x)
    assert gpu.memory == [
        OrderDependence(
            site=site("shift_kernel", "x", "read"), cells=3, first_cells=((1,), (2,), (3,)), programs=(1, 0)
        )
    ]


@triton.jit
def alias_kernel(x, y, flag):
    pid = tl.program_id(0)
    shared = tl.load(flag)  # read by all
    tl.store(y + pid, tl.load(x + pid) + shared)


@pytest.mark.parametrize("chunk", [1, 2, 1 << 19])
@pytest.mark.parametrize("writer", range(4))
def test_arguments_that_alias_meet_in_one_memory(gpu: Gpu, writer: int, chunk: int) -> None:
    gpu.in_chunks_of(chunk)
    storage = torch.zeros(8)
    alias_kernel[(4,)](storage[:4], storage[:4], storage[writer:])
    (event,) = gpu.memory
    assert isinstance(event, OrderDependence)
    reader = event.programs[0]
    assert reader in {0, 1, 2, 3} - {writer}
    assert event == OrderDependence(
        site=site("alias_kernel", "flag", "read by all"), cells=1, first_cells=((0,),), programs=(reader, writer)
    )


@triton.jit(noinline=True)
def put_through(out, at, value):
    tl.store(out + at, value)


@triton.jit
def hidden_store_kernel(x):
    pid = tl.program_id(0)
    value = tl.load(x + pid)  # read before a call
    put_through(x, pid + 1, value)


def test_a_store_in_a_called_function_counts_too(gpu: Gpu) -> None:
    hidden_store_kernel[(3,)](torch.zeros(4))
    assert gpu.memory == [
        OrderDependence(
            site=site("hidden_store_kernel", "x", "read before a call"),
            cells=2,
            first_cells=((1,), (2,)),
            programs=(1, 0),
        )
    ]


@triton.jit
def stray_kernel(x, out, skip, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + at, tl.load(x + at + skip) + 1)  # both stray


def stray(argument: str, access: Access, region: Region, lanes: int, program: int, element: int) -> Stray:
    return Stray(
        site=site("stray_kernel", argument, "both stray"),
        access=access,
        region=region,
        lanes=lanes,
        program=program,
        element=element,
    )


def test_strays_are_told_by_region_and_harm_nothing(gpu: Gpu) -> None:
    around = torch.full((16,), 5.0)
    out = torch.full((16,), -1.0)
    stray_kernel[(2,)](around[2:12], out[4:10], 0, 8)
    assert out.tolist() == [-1] * 4 + [6] * 6 + [-1] * 6
    assert gpu.memory == [
        stray("x", Access.LOAD, Region.OUTSIDE_STORAGE, 2, 1, 14),
        stray("x", Access.LOAD, Region.OUTSIDE_VIEW, 4, 1, 10),
        stray("out", Access.STORE, Region.OUTSIDE_STORAGE, 4, 1, 12),
        stray("out", Access.STORE, Region.OUTSIDE_VIEW, 6, 0, 6),
    ]


def test_lanes_before_the_storage_read_zero(gpu: Gpu) -> None:
    out = torch.full((8,), -1.0)
    stray_kernel[(1,)](torch.full((8,), 5.0), out, -3, 8)
    assert out.tolist() == [1, 1, 1, 6, 6, 6, 6, 6]
    assert gpu.memory == [stray("x", Access.LOAD, Region.OUTSIDE_STORAGE, 3, 0, -3)]


def test_gaps_between_rows_belong_to_nobody(gpu: Gpu) -> None:
    wide = torch.zeros(2, 6)
    out = wide[:, :4]
    stray_kernel[(1,)](torch.ones(8), out, 0, 8)
    assert wide.tolist() == [[2, 2, 2, 2, 0, 0], [2, 2, 0, 0, 0, 0]]
    assert gpu.memory == [stray("out", Access.STORE, Region.IN_GAP, 2, 0, 4)]


def test_an_empty_view_covers_nothing(gpu: Gpu) -> None:
    stray_kernel[(1,)](torch.ones(16)[3:3], torch.zeros(8), 0, 8)
    assert gpu.memory == [stray("x", Access.LOAD, Region.OUTSIDE_VIEW, 8, 0, 0)]


def test_an_empty_tensor_is_a_null_pointer(gpu: Gpu) -> None:
    out = torch.zeros(8)
    stray_kernel[(1,)](torch.ones(0), out, 0, 8)
    assert out.tolist() == [1] * 8
    assert gpu.memory == [stray("x", Access.LOAD, Region.NULL, 8, 0, 0)]


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
def test_every_view_is_read_as_torch_reads_it(gpu: Gpu, name: str) -> None:
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


def test_lanes_masked_off_hold_the_other_of_their_program(gpu: Gpu) -> None:
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
def test_lanes_that_a_load_leaves_undefined_are_counted_and_filled(gpu: Gpu, fill: LaneFill, held: float) -> None:
    gpu.begin(fill)
    x, out = torch.randn(4, 8), torch.zeros(3, 4, 8)
    undefined_kernel[(3,)](x, out, 3, 4, 8)
    expected = x.clone()
    expected[3] = held
    assert torch.equal(out, torch.stack((expected, expected, torch.zeros(4, 8))))
    assert gpu.memory == [UndefinedLanes(site=site("undefined_kernel", "x", "undefined"), lanes=16)]


@triton.jit
def fresh_kernel(x, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + at, tl.load(x + at))  # fresh


def test_reads_of_what_nobody_wrote_are_told(gpu: Gpu) -> None:
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
def atomic_kernel(counter, tickets, sums, largest, swapped, N: tl.constexpr):
    pid = tl.program_id(0)
    at = tl.arange(0, N)
    tl.store(tickets + pid * N + at, tl.atomic_add(counter + at * 0, 1))
    tl.atomic_add(sums + at, (at + pid).to(tl.float32), mask=at != 2)
    tl.atomic_max(largest, pid * 10)
    tl.atomic_min(largest + 1, -pid)
    tl.atomic_xchg(swapped + at % 2, pid * N + at)
    tl.atomic_or(largest + 2, 1 << pid)


@pytest.mark.parametrize("chunk", [1, 8, 1 << 19])
def test_atomics_are_served_one_after_the_other_and_are_no_overlap(gpu: Gpu, chunk: int) -> None:
    gpu.in_chunks_of(chunk)
    counter, tickets = torch.zeros(1, dtype=torch.int32), torch.zeros(5, 4, dtype=torch.int32)
    sums, largest = torch.zeros(4), torch.zeros(3, dtype=torch.int32)
    swapped = torch.zeros(2, dtype=torch.int32)
    atomic_kernel[(5,)](counter, tickets, sums, largest, swapped, 4)
    assert counter.item() == 20
    assert sorted(tickets.view(-1).tolist()) == list(range(20))
    assert sums.tolist() == [10, 15, 0, 25]
    assert largest.tolist() == [40, -4, 31]
    assert swapped.tolist() == [18, 19]
    assert gpu.memory == []


@triton.jit
def fresh_atomic_kernel(x):
    tl.atomic_add(x + tl.program_id(0), 1.0)  # atomic on fresh memory


def test_an_atomic_on_fresh_memory_is_a_read_of_it(gpu: Gpu) -> None:
    with gpu.fresh:
        x = torch.empty(3)
    x[0] = 0
    fresh_atomic_kernel[(4,)](x)
    assert gpu.memory == [
        UninitialisedRead(
            site=site("fresh_atomic_kernel", "x", "atomic on fresh memory"),
            cells=2,
            first_cells=((1,), (2,)),
            program=1,
        ),
        Stray(
            site=site("fresh_atomic_kernel", "x", "atomic on fresh memory"),
            access=Access.ATOMIC,
            region=Region.OUTSIDE_STORAGE,
            lanes=1,
            program=3,
            element=3,
        ),
    ]


@triton.jit
def two_types_kernel(x, words, N: tl.constexpr):
    at = tl.arange(0, N)
    pid = tl.program_id(0)
    if pid == 0:
        tl.store(x + at, (at * 0).to(tl.float16))
    else:
        tl.store(words + at, at * 0 + 0x10000)  # as words


def test_views_of_two_types_overlap_in_the_bytes_they_share(gpu: Gpu) -> None:
    storage = torch.zeros(8, dtype=torch.float16)
    two_types_kernel[(2,)](storage[1:5], storage.view(torch.int32), 4)
    assert gpu.memory == [
        Overlap(
            site=site("two_types_kernel", "words", "as words"),
            same_bytes=False,
            cells=3,
            first_cells=((0,), (1,), (2,)),
            programs=(0, 1),
        )
    ]


@triton.jit
def busy_kernel(x, w, out, n, columns, M: tl.constexpr, N: tl.constexpr):
    pid = tl.program_id(0)
    column = tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    weight = tl.load(w + column, mask=column < columns, other=1.0)
    for row in range(pid * M, min(pid * M + M, n)):
        value = tl.load(x + row * columns + column, mask=column < columns, other=0.0)
        total += value * weight
        tl.store(x + row * columns + column, value * 2, mask=column < columns)
    tl.store(out + pid * columns + column, total, mask=column < columns)
    if pid > 0:
        tl.store(out + column, total, mask=column < 2)


def test_the_size_of_chunks_changes_neither_results_nor_events(gpu: Gpu) -> None:
    def run(chunk: int) -> tuple[list[MemoryEvent], list[list[float]], list[list[float]]]:
        gpu.in_chunks_of(chunk)
        gpu.begin()
        torch.manual_seed(1)
        x, w, out = torch.randn(13, 6), torch.randn(6), torch.zeros(4, 6)
        busy_kernel[(4,)](x, w, out, 13, 6, 4, 8)
        return gpu.memory, x.tolist(), out[1:].tolist()

    first, *others = [run(chunk) for chunk in (1 << 19, 1, 8, 16, 24)]
    assert len(first[0]) == 1
    assert others == [first] * 4


@triton.jit
def described_kernel(x, y, SCALE: tl.constexpr, N: tl.constexpr, name: tl.constexpr):  # noqa: ARG001 - a constant that only selects the kernel
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at) * SCALE)


def test_a_launch_is_described(gpu: Gpu) -> None:
    described_kernel[(1, 1, 1)](torch.ones(16), torch.ones(16), 2.5, 16, "odd", num_warps=2)
    (launch,) = gpu.seen
    assert (launch.kernel, launch.grid, launch.num_warps) == ("described_kernel", (1, 1, 1), 2)
    assert dict(launch.constants) == {"SCALE": 2.5, "N": 16, "name": "odd"}
    assert launch.tile_sizes == (16,)
    assert (launch.config_index, launch.config_count, launch.scratch_bytes) == (0, 1, 0)
    assert launch.source is not None
    assert launch.source.file == HERE


@triton.jit
def gather_kernel(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    tl.store(out + at, tl.gather(value, at, 0))  # gather


@triton.jit
def histogram_kernel(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    if tl.load(x) == 0:
        tl.store(out + at, tl.histogram(tl.load(x + at), N))  # histogram


@triton.jit
def lock_kernel(x):
    tl.atomic_cas(x, 0, 1)  # lock


@pytest.mark.parametrize(
    ("kernel", "operation"),
    [(gather_kernel, "gather"), (histogram_kernel, "histogram"), (lock_kernel, "lock")],
    ids=["gather", "histogram", "compare and swap"],
)
def test_an_unknown_operation_is_named_with_the_users_line(gpu: Gpu, kernel: object, operation: str) -> None:
    x, out = torch.zeros(16, dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    arguments = (x,) if operation == "lock" else (x, out, 16)
    unsupported = gpu.unsupported(lambda: kernel[(1,)](*arguments))
    assert unsupported.what == {"lock": "tt.atomic_cas"}.get(operation, f"tt.{operation}")
    assert unsupported.source == Source(file=HERE, line=line_of(HERE, operation))
    assert unsupported.kernel == f"{operation}_kernel"
