"""Tensor descriptors made by the host, selected, carried through loops, and used by gather, scatter and reduce."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.engines.conftest import Gpu, MakeGpu, dependences, line_of
from tests.engines.virtual.operations.test_descriptors import with_scratch


@triton.jit
def host_kernel(given, out, N: tl.constexpr):
    rows = tl.arange(0, N)
    tl.store(out + rows[:, None] * N + rows[None, :], given.load([2, -4]))


@pytest.mark.parametrize("padding", ["zero", "nan"])
@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0), (12, 0)])
def test_a_descriptor_may_be_made_by_the_host(make_gpu: MakeGpu, capability: tuple[int, int], padding: str) -> None:
    """Before compute capability 9.0, Triton passes a host descriptor as separate arguments."""
    gpu = make_gpu(capability)
    x, out = torch.randn(6, 8), torch.zeros(8, 8)
    kernel = triton.jit(host_kernel.fn)  # a kernel must not be launched on two GPUs
    kernel[(1,)](TensorDescriptor.from_tensor(x[:, :6], [8, 8], padding), out, 8)
    expected = torch.full((8, 8), 0.0 if padding == "zero" else float("nan"))
    expected[:4, 4:] = x[2:, :4]
    torch.testing.assert_close(out, expected, equal_nan=True)
    assert gpu.memory == []


@triton.jit
def rows_kernel(x, row_numbers, out, rows, columns, first, N: tl.constexpr):
    here = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [1, N])
    there = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [1, N])
    indices = tl.load(row_numbers + tl.arange(0, 8))
    there.scatter(here.gather(indices, first), indices, first)


def test_rows_outside_are_gathered_as_zeros_and_not_scattered(gpu: Gpu) -> None:
    x, out = torch.randn(6, 12), torch.full((6, 12), -1.0)
    row_numbers = torch.tensor([5, -1, 6, 0, -7, 100, 3, 1], dtype=torch.int32)
    with_scratch(lambda: rows_kernel[(1,)](x, row_numbers, out, 6, 12, 8, 8))
    expected = torch.full((6, 12), -1.0)
    expected[[5, 0, 3, 1], 8:] = x[[5, 0, 3, 1], 8:]
    assert torch.equal(out, expected)
    assert gpu.memory == []


@triton.jit
def reduce_kernel(x, sums, least, most, bits, rows, N: tl.constexpr):
    values = tl.make_tensor_descriptor(x, [rows, N], [N, 1], [4, N]).load([tl.program_id(0) * 4, 0])
    tl.make_tensor_descriptor(sums, [3, N], [N, 1], [4, N]).atomic_add([0, 0], values)
    tl.make_tensor_descriptor(least, [3, N], [N, 1], [4, N]).atomic_min([0, 0], values)
    tl.make_tensor_descriptor(most, [3, N], [N, 1], [4, N]).atomic_max([0, 0], values)
    tl.make_tensor_descriptor(bits, [3, N], [N, 1], [4, N]).atomic_xor([0, 0], values)


@pytest.mark.parametrize("signed", [True, False])
def test_programs_reduce_into_a_descriptor(gpu: Gpu, signed: bool) -> None:  # noqa: FBT001 - a parametrised test
    dtype = torch.int32 if signed else torch.uint32
    x = torch.randint(-(2**31), 2**31, (8, 4)).to(torch.int32)
    sums, least, most, bits = (torch.zeros(3, 4, dtype=torch.int32) for _ in range(4))
    least += 5
    given = [tensor.view(dtype) for tensor in (x, sums, least, most, bits)]
    with_scratch(lambda: reduce_kernel[(2,)](*given, 8, 4))
    above = x.view(2, 4, 4)[:, :3].long() if signed else x.view(2, 4, 4)[:, :3].long() & 0xFFFFFFFF
    assert torch.equal(sums, above.sum(0).to(torch.int32))
    assert torch.equal(least, above.amin(0).clamp(max=5).to(torch.int32))
    assert torch.equal(most, above.amax(0).clamp(min=0).to(torch.int32))
    assert torch.equal(bits, (above[0] ^ above[1]).to(torch.int32))
    assert gpu.memory == []


def test_reductions_into_a_descriptor_count_as_atomics(gpu: Gpu) -> None:
    x, sums, least, most, bits = (torch.zeros(8, 4, dtype=torch.int32) for _ in range(5))
    with_scratch(lambda: reduce_kernel[(2,)](x, sums, least, most, bits, 8, 4))
    assert [launch.atomics for launch in gpu.seen] == [True], "programs add up in any order"


@triton.jit(noinline=True)
def fill(box, N: tl.constexpr):
    box.store([0, 0], tl.full((8, N), 2.0, tl.float32))


@triton.jit
def spreading_kernel(x, table, out, HOW: tl.constexpr, N: tl.constexpr):
    """The first program changes rows of a table that the others read."""
    pid = tl.program_id(0)
    rows, lanes = tl.arange(0, 8), tl.arange(0, N)
    if pid == 0:
        value = tl.load(x + rows[:, None] * N + lanes[None, :])
        if HOW == "scatter":
            tl.make_tensor_descriptor(table, [8, N], [N, 1], [1, N]).scatter(value, rows, 0)
        elif HOW == "call":
            fill(tl.make_tensor_descriptor(table, [8, N], [N, 1], [8, N]), N)
        else:
            tl.make_tensor_descriptor(table, [8, N], [N, 1], [8, N]).atomic_add([0, 0], value)
    else:
        tl.store(out + pid * N + lanes, tl.load(table + pid * N + lanes))  # of the table


@pytest.mark.alone("its programs race")
@pytest.mark.parametrize("how", ["scatter", "reduce", "call"])
def test_a_write_through_a_descriptor_to_what_others_read_is_detected(gpu: Gpu, how: str) -> None:
    x, table, out = torch.full((8, 16), 2.0), torch.zeros(8, 16), torch.zeros(4, 16)
    with_scratch(lambda: spreading_kernel[(4,)](x, table, out, how, 16))
    assert torch.equal(table, x)
    assert gpu.case_launches.writers[table.untyped_storage().data_ptr()] == ("spreading_kernel", "table")
    if how != "reduce":
        assert dependences(gpu) == {("table", line_of(__file__, "of the table"))}


@triton.jit
def carried_kernel(x, y, out, rows, N: tl.constexpr):
    pid = tl.program_id(0)
    box = tl.make_tensor_descriptor(x, [rows, N], [N, 1], [4, N])
    if pid > 1:
        box = tl.make_tensor_descriptor(y, [rows - 1, N], [N, 1], [4, N])
    total = tl.zeros((4, N), tl.float32)
    for step in range(pid + 1):
        total += box.load([step, 0])
        if step == 1:
            box = tl.make_tensor_descriptor(x + N, [rows - 2, N], [N, 1], [4, N])
    at = tl.arange(0, 4)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + pid * 4 * N + at, total)


def test_descriptors_are_selected_and_carried_through_loops(gpu: Gpu) -> None:
    rows, n = 6, 4
    x, y, out = torch.randn(rows, n), torch.randn(rows, n), torch.zeros(4, 4, n)
    with_scratch(lambda: carried_kernel[(4,)](x, y, out, rows, n))
    for pid in range(4):
        box = y[: rows - 1] if pid > 1 else x
        expected = torch.zeros(4, n)
        for step in range(pid + 1):
            part = box[step : step + 4]
            expected[: len(part)] += part
            if step == 1:
                box = x[1 : 1 + rows - 2]
        torch.testing.assert_close(out[pid], expected)
    assert gpu.memory == []
