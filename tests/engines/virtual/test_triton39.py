"""Operations that only the front end of Triton 3.9 emits, and rare forms of all releases."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false, reportUnknownMemberType=false
# pyright: reportAttributeAccessIssue=false, reportUnknownArgumentType=false

from types import SimpleNamespace

import pytest
import torch
import triton
import triton.language as tl

from harness.engines.triton.driver import LaunchRequest
from harness.model.run import Residency
from tests.engines.conftest import Gpu, counters, dependences, line_of

only_39 = pytest.mark.skipif(not hasattr(tl, "atomic_poll"), reason="Triton has it from 3.9 on")


@triton.jit
def handed_on_kernel(flags, x, out, SEM: tl.constexpr, N: tl.constexpr):
    pid = tl.program_id(0)
    before = tl.zeros((N,), tl.float32)
    if pid > 0:
        while tl.atomic_load(flags + pid - 1, sem=SEM) == 0:
            pass
        before = tl.load(out + (pid - 1) * N + tl.arange(0, N))  # of the one before
    at = pid * N + tl.arange(0, N)
    tl.store(out + at, before + tl.load(x + at))
    tl.atomic_store(flags + pid, 1)


@only_39
def test_an_atomic_load_acquires_from_an_atomic_store(gpu: Gpu) -> None:
    x, out = torch.randn(6, 8), torch.zeros(6, 8)
    handed_on_kernel[(6,)](counters(6), x, out, "acquire", 8)
    torch.testing.assert_close(out, x.cumsum(0))
    assert gpu.memory == []


@only_39
def test_a_relaxed_atomic_load_acquires_nothing(gpu: Gpu) -> None:
    handed_on_kernel[(6,)](counters(6), torch.randn(6, 8), torch.zeros(6, 8), "relaxed", 8)
    assert dependences(gpu) == {("out", line_of(__file__, "of the one before"))}


@triton.jit
def both_loads_kernel(x, count, out, STORES: tl.constexpr):
    pid = tl.program_id(0)
    if STORES and pid == 0:
        tl.store(x, 1)
    tl.store(out + pid, tl.load(x + 1) + tl.atomic_load(x + pid % 2))  # looks
    tl.atomic_add(count, 1)


@only_39
def test_an_atomic_load_conflicts_with_plain_stores_only(gpu: Gpu) -> None:
    both_loads_kernel[(4,)](counters(2), counters(), counters(4), STORES=False)
    assert gpu.memory == []
    both_loads_kernel[(4,)](counters(2), counters(), counters(4), STORES=True)
    assert dependences(gpu) == {("x", line_of(__file__, "looks"))}


@triton.jit
def masked_kernel(cells, seen, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(seen + at, tl.atomic_load(cells + at, mask=at < 5), mask=at < 5)
    tl.atomic_store(cells + at, at * 10, mask=at >= 6)


@only_39
def test_atomic_loads_and_stores_respect_masks(gpu: Gpu) -> None:
    cells, seen = torch.arange(8, dtype=torch.int32), counters(8)
    masked_kernel[(1,)](cells, seen, 8)
    assert seen.tolist() == [0, 1, 2, 3, 4, 0, 0, 0]
    assert cells.tolist() == [0, 1, 2, 3, 4, 5, 60, 70]
    assert gpu.memory == []


@only_39
def test_atomic_stores_make_a_kernel_the_writer_of_a_tensor(gpu: Gpu) -> None:
    cells, seen = torch.arange(8, dtype=torch.int32), counters(8)
    masked_kernel[(1,)](cells, seen, 8)
    written = {tensor.untyped_storage().data_ptr(): name for tensor, name in ((cells, "cells"), (seen, "seen"))}
    assert gpu.case_launches.writers == {address: ("masked_kernel", name) for address, name in written.items()}


@triton.jit
def backwards_kernel(flags, out, n):
    pid = tl.program_id(0)
    if pid < n - 1:
        tl.atomic_poll(flags + pid, 1)
    tl.store(out + pid, 1)
    if pid > 0:
        tl.atomic_store(flags + pid - 1, 1)


@only_39
def test_a_poll_waits_for_another_program(gpu: Gpu) -> None:
    out = counters(5)
    backwards_kernel[(5,)](counters(5), out, 5)
    assert out.tolist() == [1] * 5
    assert gpu.memory == []


@triton.jit
def unanswered_kernel(flag, out):
    tl.atomic_poll(flag, 1)
    tl.store(out + tl.program_id(0), 1)


@only_39
def test_a_poll_for_a_value_that_is_never_stored_deadlocks(gpu: Gpu) -> None:
    found = gpu.deadlock(lambda: unanswered_kernel[(3,)](counters(), counters(3)))
    assert (found.ends_with, found.resident, found.not_started) == (Residency.NONE, 3, 0)
    assert [(wait.argument, wait.index, wait.programs) for wait in found.waits] == [("flag", (0,), 3)]


@triton.jit
def timed_kernel(cells, met, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(met + at, tl.atomic_poll(cells + at, 1, timeout_ns=100).to(tl.int32))


@only_39
def test_a_poll_with_a_timeout_returns_which_lanes_succeeded(gpu: Gpu) -> None:
    cells, met = torch.tensor([1, 0, 1, 2], dtype=torch.int32), counters(4)
    timed_kernel[(1,)](cells, met, 4)
    assert met.tolist() == [1, 0, 1, 0]
    assert gpu.memory == []


@triton.jit
def quotient_kernel(x, y, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.fdiv(tl.load(x + at), tl.load(y + at), approx=True))


@only_39
def test_an_approximate_quotient_is_rounded_once(gpu: Gpu) -> None:
    x, y, out = torch.randn(32), torch.randn(32), torch.zeros(32)
    quotient_kernel[(1,)](x, y, out, 32)
    assert torch.equal(out, (x.double() / y.double()).float())
    assert gpu.memory == []


@triton.jit(noinline=True)
def early(value):
    if value > 2:
        return value * 2
    return value + 1


@triton.jit
def table_kernel(pointers, pair, out, N: tl.constexpr):
    """Pointers in memory, a tuple argument, and a function of two returns."""
    at = tl.arange(0, N)
    first, scale = pair
    source = tl.load(pointers + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    total = tl.load(source + at) * scale + tl.load(first + at)
    tl.store(out + tl.program_id(0) * N + at, total + early(tl.program_id(0)))


def test_pointer_tables_and_tuples_are_valid_arguments(gpu: Gpu) -> None:
    a, b, c, d = (torch.randn(8) for _ in range(4))
    addresses = torch.tensor([tensor.data_ptr() for tensor in (a, b, c, d)])
    first, out = torch.randn(8), torch.zeros(4, 8)
    table_kernel[(4,)](addresses, (first, 3.0), out, 8)
    expected = torch.stack([a, b, c, d]) * 3 + first + torch.tensor([1.0, 2.0, 3.0, 6.0])[:, None]
    torch.testing.assert_close(out, expected)
    assert gpu.memory == []


UNDECIDED = """
module {
  tt.func public @kernel(%out: !tt.ptr<i32>) attributes {noinline = false} {
    %c3_i32 = arith.constant 3 : i32
    %nothing = ub.poison : i32
    %pid = tt.get_program_id x : i32
    %odd = arith.cmpi sgt, %pid, %c3_i32 : i32
    %value = arith.select %odd, %nothing, %pid : i32
    %cell = tt.addptr %out, %pid : !tt.ptr<i32>, i32
    tt.store %cell, %value : !tt.ptr<i32>
    tt.return
  }
}
"""


def test_an_unselected_value_may_be_poison(gpu: Gpu) -> None:
    out = counters(4)
    gpu.launches(
        LaunchRequest(
            ttir=UNDECIDED,
            grid=(4, 1, 1),
            stream=0,
            source=SimpleNamespace(
                fn=SimpleNamespace(__name__="kernel", arg_names=["out"]),
                signature={"out": "*i32"},
                constants={},
                attrs={},
            ),
            metadata=SimpleNamespace(num_warps=4, num_stages=1),
            arguments=[out],
        )
    )
    assert out.tolist() == [0, 1, 2, 3]
    assert gpu.memory == []
