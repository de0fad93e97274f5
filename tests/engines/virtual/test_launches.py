"""Memory events and facts of whole launches: overlaps, dependences, strays, atomics, and the record of a launch."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import pytest
import torch
import triton
import triton.language as tl

from harness.engines.triton.builds import BUILD_SUFFIX, RESOURCES_SUFFIX
from harness.engines.ttir.kept_modules import SUFFIX as KEPT_MODULE
from harness.model.run import (
    Access,
    AccessSite,
    AddressSpace,
    MemoryEvent,
    OrderDependence,
    Overlap,
    PartlyStored,
    Source,
    Stray,
    UninitialisedRead,
)
from tests.engines.conftest import Gpu, MakeGpu, line_of

HERE = __file__
TWICE = tl.constexpr("vadd.s32.s32.s32 $0, $1, $1;")


def site(kernel: str, argument: str, comment: str) -> AccessSite:
    return AccessSite(kernel=kernel, launch=0, argument=argument, source=Source(file=HERE, line=line_of(HERE, comment)))


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
            is_whole=False,
        ),
        Overlap(
            site=site("overlap_kernel", "y", "other bytes"),
            same_bytes=False,
            cells=2,
            first_cells=((7,), (14,)),
            programs=(0, 1),
            is_whole=False,
        ),
    ]


@triton.jit
def shift_kernel(x):
    pid = tl.program_id(0)
    value = tl.load(x + pid)  # read
    tl.store(x + pid + 1, value + 1)


@pytest.mark.parametrize("chunk", [1, 2, 1 << 19])
def test_reading_what_another_program_stores_is_an_order_dependence(gpu: Gpu, chunk: int) -> None:
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
def test_aliasing_arguments_share_shadow_memory(gpu: Gpu, writer: int, chunk: int) -> None:
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


def test_a_store_in_a_called_function_is_recorded(gpu: Gpu) -> None:
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
def test_atomics_are_applied_in_order_and_never_overlap(gpu: Gpu, chunk: int) -> None:
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


def test_an_atomic_on_fresh_memory_is_an_uninitialised_read(gpu: Gpu) -> None:
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
            region=AddressSpace.OUTSIDE_STORAGE,
            lanes=1,
            program=3,
            element=3,
        ),
    ]


@triton.jit
def partial_sums_kernel(x, sums, D, N: tl.constexpr):
    at = tl.program_id(0) * D + tl.arange(0, N)
    tl.store(sums + at, tl.load(x + at, mask=tl.arange(0, N) < D), mask=tl.arange(0, N) < D)


def test_rows_of_fresh_memory_that_no_program_stores_are_known(gpu: Gpu) -> None:
    with gpu.fresh:
        whole, sums, column = torch.empty(2, 3), torch.empty(7, 3), torch.empty(4, 3)[:, 1:]
    partial_sums_kernel[(2,)](torch.ones(2, 3), whole, 3, 4)
    partial_sums_kernel[(2,)](torch.ones(2, 3), sums, 3, 4)
    sums[4] = 0.0  # by torch
    partial_sums_kernel[(4,)](torch.ones(12), column, 3, 1)
    assert gpu.case_launches.partly_stored() == (
        PartlyStored(launch=1, argument="sums", shape=(7, 3), cells=12, rows=(2, 6)),
        PartlyStored(launch=2, argument="sums", shape=(4, 2), cells=4, rows=None),
    )


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
            is_whole=False,
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


def test_chunk_size_changes_neither_results_nor_events(gpu: Gpu) -> None:
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


def test_the_record_of_a_launch_has_its_facts(gpu: Gpu) -> None:
    described_kernel[(1, 1, 1)](torch.ones(16), torch.ones(16), 2.5, 16, "odd", num_warps=2)
    (launch,) = gpu.seen
    assert (launch.kernel, launch.grid, launch.num_warps) == ("described_kernel", (1, 1, 1), 2)
    assert dict(launch.constants) == {"SCALE": 2.5, "N": 16, "name": "odd"}
    assert launch.tile_sizes == (16,)
    assert (launch.config_index, launch.config_count, launch.scratch_bytes) == (0, 1, 0)
    assert launch.source is not None
    assert launch.source.file == HERE


class Storage:
    def __init__(self, data: torch.Tensor) -> None:
        self.data = data


class Wrapped:
    """A tensor of a library's own, which Triton takes for its `data_ptr` and `dtype`."""

    def __init__(self, data: torch.Tensor) -> None:
        self.storage, self.dtype = Storage(data), data.dtype

    def data_ptr(self) -> int:
        return self.storage.data.data_ptr()


def test_a_grid_of_tensors_is_recorded_as_numbers(gpu: Gpu) -> None:
    x, y, out = torch.randn(22), torch.zeros(22), torch.zeros(22)
    overlap_kernel[(torch.tensor(3),)](x, y, out, 22, 8)
    (launch,) = gpu.seen
    assert [type(size) for size in launch.grid] == [int, int, int]
    assert launch.grid == (3, 1, 1)


def test_an_object_with_an_address_is_the_tensor_that_it_wraps(gpu: Gpu) -> None:
    x, y = torch.ones(16), torch.zeros(12)
    described_kernel[(1,)](Wrapped(x), Wrapped(y), 2.0, 16, "wrapped")
    assert y.tolist() == [2.0] * 12
    assert [type(event) for event in gpu.memory] == [Stray]


@triton.jit
def left_kernel(x):
    tl.store(x, 1)


def test_a_build_is_left_for_the_compiler_until_its_resources_are_known(make_gpu: MakeGpu) -> None:
    first = make_gpu((9, 0))
    left_kernel[(1,)](torch.zeros(1))
    (build,) = first.builds.glob(f"*{BUILD_SUFFIX}")
    assert build.name == f"{first.seen[0].build}{BUILD_SUFFIX}"
    answer = build.rename(build.with_suffix(RESOURCES_SUFFIX))
    second = make_gpu((9, 0))
    left_kernel[(1,)](torch.zeros(1))
    assert [launch.build for launch in second.seen] == [build.stem]
    assert [path for path in second.builds.iterdir() if path.suffix != KEPT_MODULE] == [answer]


@triton.jit
def assembly_kernel(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    if tl.load(x) == 0:
        value = tl.load(x + at)
        value = tl.inline_asm_elementwise(TWICE, "=r,r", [value], tl.int32, is_pure=True, pack=1)  # assembly
        tl.store(out + at, value)


def test_an_unsupported_operation_is_reported_with_the_users_line(gpu: Gpu) -> None:
    x, out = torch.zeros(16, dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    unsupported = gpu.unsupported(lambda: assembly_kernel[(1,)](x, out, 16))
    assert unsupported.what == "tt.elementwise_inline_asm: the PTX instruction vadd.s32.s32.s32"
    assert unsupported.source == Source(file=HERE, line=line_of(HERE, "assembly"))
    assert unsupported.kernel == "assembly_kernel"


@triton.jit
def swap_kernel(owner, seen):
    mine = tl.program_id(0) + 1
    tl.store(seen + tl.program_id(0), tl.atomic_cas(owner, 0, mine))


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_one_of_many_compare_and_swaps_wins(gpu: Gpu, chunk: int) -> None:
    gpu.in_chunks_of(chunk)
    owner, seen = torch.zeros(1, dtype=torch.int32), torch.full((7,), -1, dtype=torch.int32)
    swap_kernel[(7,)](owner, seen)
    assert owner.tolist() == [1]
    assert seen.tolist() == [0, 1, 1, 1, 1, 1, 1]
    assert gpu.case_launches.memory == []


class OwnView:
    """A library's own class of tensors, which Triton accepts for its `data_ptr`; its strides may be negative."""

    def __init__(self, base: torch.Tensor, first: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.base_tensor, self.dtype, self.shape, self._strides = base, base.dtype, shape, strides
        self._address = base.data_ptr() + first * base.element_size()

    def data_ptr(self) -> int:
        return self._address

    def stride(self) -> tuple[int, ...]:
        return self._strides

    def element_size(self) -> int:
        return self.base_tensor.element_size()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.base_tensor.untyped_storage()


@triton.jit
def strided_copy_kernel(x, out, stride, n, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at * stride, mask=at < n))  # copies


def test_a_pointer_may_be_an_object_with_an_address(gpu: Gpu) -> None:
    x, out = torch.arange(8.0), torch.zeros(4)
    strided_copy_kernel[(1,)](OwnView(x, 2, (4,), (1,)), out, 1, 4, 4)
    assert out.tolist() == [2.0, 3.0, 4.0, 5.0]
    strided_copy_kernel[(1,)](OwnView(x, 7, (4,), (-1,)), out, -1, 4, 4)
    assert out.tolist() == [7.0, 6.0, 5.0, 4.0]
    assert gpu.memory == []
    strided_copy_kernel[(1,)](OwnView(x, 1, (4,), (-1,)), out, -1, 4, 4)
    (stray,) = gpu.memory
    assert isinstance(stray, Stray)
    assert (stray.site.argument, stray.lanes) == ("x", 2)


def test_a_stride_of_zero_leaves_indices_along_its_axis_to_the_kernel(gpu: Gpu) -> None:
    x, out = torch.arange(8.0).reshape(2, 4), torch.zeros(4)
    strided_copy_kernel[(1,)](x.as_strided((2, 1), (4, 0)), out, 1, 4, 4)
    assert out.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert gpu.memory == []
    strided_copy_kernel[(1,)](x.as_strided((2, 1), (4, 1)), out, 1, 4, 4)
    assert [type(one) for one in gpu.memory] == [Stray]
