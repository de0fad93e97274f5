"""Pointers into several arguments, and pointers made of integers."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import pytest
import torch
import triton
import triton.language as tl

from harness.engines.virtual.memory.addresses import UNKNOWN_ADDRESS_NAME
from harness.model.run import Access, AccessSite, AddressSpace, Overlap, Source, Stray
from tests.engines.conftest import Gpu, line_of

HERE = __file__


@triton.jit
def choosing_kernel(x, y, out, N: tl.constexpr):
    pid = tl.program_id(0)
    lanes = tl.arange(0, N)
    by_lane = tl.where(lanes % 3 == 0, x + lanes, y + lanes)
    tl.store(out + pid * 3 * N + lanes, tl.load(by_lane, mask=lanes != 1, other=-1.0))
    base = x
    if pid % 2 == 1:
        base = y
    tl.store(out + (pid * 3 + 1) * N + lanes, tl.load(base + lanes))
    for _ in range(pid):
        base += 1
    tl.store(out + (pid * 3 + 2) * N + lanes, tl.load(tl.reshape(base + lanes, (2, N // 2))).reshape((N,)))
    tl.store(tl.where(lanes < 4, x, y) + 2 * N + pid * N + lanes, 7.0)
    tl.atomic_add(tl.where(lanes < 4, x, y) + lanes + 6 * N, 1.0)


def test_programs_and_lanes_may_select_pointers_into_different_arguments(gpu: Gpu) -> None:
    del gpu
    programs, n = 4, 8
    x, y, out = torch.randn(7 * n), torch.randn(7 * n), torch.zeros(programs, 3, n)
    before, after = x.clone(), y.clone()
    lanes = torch.arange(n)
    choosing_kernel[(programs,)](x, y, out, n)
    expected = torch.where(lanes % 3 == 0, before[:n], after[:n])
    expected[1] = -1.0
    for pid in range(programs):
        source = after if pid % 2 else before
        assert torch.equal(out[pid, 0], expected)
        assert torch.equal(out[pid, 1], source[:n])
        assert torch.equal(out[pid, 2], source[pid : pid + n])
    assert torch.equal(x[2 * n : 6 * n].view(programs, n)[:, :4], torch.full((programs, 4), 7.0))
    assert torch.equal(y[2 * n : 6 * n].view(programs, n)[:, 4:], torch.full((programs, 4), 7.0))
    torch.testing.assert_close(x[6 * n : 6 * n + 4], before[6 * n : 6 * n + 4] + programs)
    torch.testing.assert_close(y[6 * n + 4 :], after[6 * n + 4 :] + programs)


@triton.jit
def straying_kernel(x, y, out, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(out + lanes, tl.load(tl.where(lanes < N - 2, x, y) + lanes))  # strays in y alone


def test_each_of_several_arguments_has_its_own_bounds(gpu: Gpu) -> None:
    storage = torch.randn(16)
    x, y, out = storage[:8], storage[8:15], torch.zeros(8)
    straying_kernel[(1,)](x, y, out, 8)
    assert gpu.memory == [
        Stray(
            site=AccessSite(
                kernel="straying_kernel",
                launch=0,
                argument="y",
                source=Source(file=HERE, line=line_of(HERE, "strays in y alone")),
            ),
            access=Access.LOAD,
            region=AddressSpace.OUTSIDE_VIEW,
            lanes=1,
            program=0,
            element=7,
        )
    ]


@triton.jit
def table_kernel(table, sizes, out, N: tl.constexpr):
    group = tl.program_id(0)
    base = tl.load(table + group).to(tl.pointer_type(tl.float32))
    lanes = tl.arange(0, N)
    inside = lanes < tl.load(sizes + group)
    tl.store(out + group * N + lanes, tl.load(base + lanes, mask=inside, other=0.0))
    tl.store(base + lanes, 2.0, mask=inside)  # into the table's tensors


def test_a_table_of_addresses_reaches_tensors_that_are_no_arguments(gpu: Gpu) -> None:
    groups = [torch.randn(size) for size in (3, 5, 8)]
    table = torch.tensor([group.data_ptr() for group in groups])
    sizes, out = torch.tensor([3, 5, 8]), torch.zeros(3, 8)
    expected = torch.zeros(3, 8)
    for row, group in zip(expected, groups, strict=True):
        row[: len(group)] = group
    table_kernel[(3,)](table, sizes, out, 8)
    assert torch.equal(out, expected)
    assert [group.tolist() for group in groups] == [[2.0] * 3, [2.0] * 5, [2.0] * 8]
    assert gpu.memory == []


def test_tensors_reached_by_address_have_bounds_and_a_shadow(gpu: Gpu) -> None:
    only = torch.randn(4)
    table = torch.tensor([only.data_ptr()] * 3)
    table_kernel[(3,)](table, torch.tensor([4, 6, 4]), torch.zeros(3, 8), 8)
    strays = [event for event in gpu.memory if isinstance(event, Stray)]
    assert {(stray.access, stray.region, stray.lanes, stray.program) for stray in strays} == {
        (Access.LOAD, AddressSpace.OUTSIDE_STORAGE, 2, 1),
        (Access.STORE, AddressSpace.OUTSIDE_STORAGE, 2, 1),
    }
    (overlap,) = (event for event in gpu.memory if isinstance(event, Overlap))
    assert (overlap.cells, overlap.site.argument) == (4, "a tensor reached by its address")


def test_an_address_that_no_tensor_holds_is_a_stray_access(gpu: Gpu) -> None:
    out = torch.ones(2, 8)
    table_kernel[(2,)](torch.tensor([16, 0]), torch.tensor([3, 2]), out, 8)
    assert out.tolist() == [[0.0] * 8] * 2
    strays = [event for event in gpu.memory if isinstance(event, Stray)]
    assert {(stray.access, stray.region, stray.lanes, stray.program, stray.element) for stray in strays} == {
        (Access.LOAD, AddressSpace.UNKNOWN_POINTER, 3, 0, 0),
        (Access.LOAD, AddressSpace.NULL, 2, 1, 0),
        (Access.STORE, AddressSpace.UNKNOWN_POINTER, 3, 0, 0),
        (Access.STORE, AddressSpace.NULL, 2, 1, 0),
    }
    assert {stray.site.argument for stray in strays} == {UNKNOWN_ADDRESS_NAME}


@triton.jit
def there_and_back_kernel(x, out, same, N: tl.constexpr):
    lanes = tl.arange(0, N)
    number = (x + lanes).to(tl.int64)
    tl.store(same + lanes, number - x.to(tl.int64))
    tl.store(out + lanes, tl.load((number + 8).to(tl.pointer_type(tl.float32)), mask=lanes < N - 2, other=0.0))


def test_a_pointer_survives_being_an_integer(gpu: Gpu) -> None:
    x, out, same = torch.randn(8), torch.zeros(8), torch.zeros(8, dtype=torch.int64)
    there_and_back_kernel[(1,)](x, out, same, 8)
    assert same.tolist() == [0, 4, 8, 12, 16, 20, 24, 28]
    assert torch.equal(out[:6], x[2:])
    assert gpu.memory == []


@triton.jit
def words_kernel(x, out, N: tl.constexpr):
    lanes = tl.arange(0, N)
    value = tl.load(x + lanes)
    tl.store(out + lanes, value.to(tl.int64, bitcast=True))
    narrow = tl.load(x.to(tl.pointer_type(tl.int16), bitcast=True) + lanes)
    tl.store(out + N + lanes, narrow.to(tl.bfloat16, bitcast=True).to(tl.int16, bitcast=True).to(tl.int64))


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_bits_of_every_width_can_be_read_as_another_type(gpu: Gpu, dtype: torch.dtype) -> None:
    x = torch.randint(-(2**62), 2**62, (8,)).view(dtype)
    out = torch.zeros(2, 8, dtype=torch.int64)
    words_kernel[(1,)](x, out, 8)
    assert torch.equal(out[0], x.view(torch.int64))
    assert torch.equal(out[1], x.view(torch.int16)[:8].long())
    assert gpu.memory == []
