"""Alignment checks of tensor descriptors, and the GPUs that need them."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN202, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from harness.model.run import AccessSite, Misaligned, Source, Stray, Unaligned
from tests.engines.conftest import Gpu, MakeGpu, line_of
from tests.engines.virtual.operations.test_descriptors import with_scratch

SINCE_HOPPER = [(9, 0), (10, 0), (12, 0)]


def moving_kernel() -> Any:
    @triton.jit
    def kernel(x, out, stride, first, B: tl.constexpr):
        there = tl.make_tensor_descriptor(x, [8, 16], [stride, 1], [B, B])  # made
        at = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
        if tl.program_id(0) > 0:
            tl.store(out + at, there.load([0, tl.program_id(0) * first]))  # moved

    return lambda x, out, stride, first: kernel[(3,)](x, out, stride, first, 8)


def seen(gpu: Gpu, comment: str, what: Unaligned, off_by: int, program: int) -> bool:
    source = Source(file=__file__, line=line_of(__file__, comment))
    site = AccessSite(kernel="kernel", launch=0, argument="x", source=source)
    return Misaligned(site=site, what=what, off_by=off_by, program=program) in gpu.memory


@pytest.mark.parametrize("capability", SINCE_HOPPER)
def test_a_tensor_misaligned_to_16_bytes_is_reported(make_gpu: MakeGpu, capability: tuple[int, int]) -> None:
    gpu = make_gpu(capability)
    x = torch.zeros(200)[3:]
    with_scratch(lambda: moving_kernel()(x, torch.empty(8, 8), 16, 4))
    assert seen(gpu, "made", Unaligned.TENSOR, 12, 0)
    assert len([event for event in gpu.memory if isinstance(event, Misaligned)]) == 1


@pytest.mark.parametrize("capability", SINCE_HOPPER)
def test_a_row_stride_misaligned_to_16_bytes_is_reported(make_gpu: MakeGpu, capability: tuple[int, int]) -> None:
    gpu = make_gpu(capability)
    with_scratch(lambda: moving_kernel()(torch.zeros(8, 18), torch.empty(8, 8), 18, 4))
    assert seen(gpu, "made", Unaligned.ROW, 8, 0)


@pytest.mark.parametrize("capability", SINCE_HOPPER)
def test_a_misaligned_block_is_reported_with_its_first_program(make_gpu: MakeGpu, capability: tuple[int, int]) -> None:
    gpu = make_gpu(capability)
    with_scratch(lambda: moving_kernel()(torch.zeros(8, 16), torch.empty(8, 8), 16, 2))
    assert seen(gpu, "moved", Unaligned.BLOCK, 8, 1)


def test_a_host_descriptor_can_have_a_misaligned_block(make_gpu: MakeGpu) -> None:
    @triton.jit
    def kernel(given, out, N: tl.constexpr):
        rows = tl.arange(0, N)
        tl.store(out + rows[:, None] * N + rows[None, :], given.load([2, -1]))  # of the host

    gpu = make_gpu((9, 0))
    kernel[(1,)](TensorDescriptor.from_tensor(torch.zeros(6, 8), [8, 8]), torch.empty(8, 8), 8)
    source = Source(file=__file__, line=line_of(__file__, "of the host"))
    site = AccessSite(kernel="kernel", launch=0, argument="given", source=source)
    assert gpu.memory == [Misaligned(site=site, what=Unaligned.BLOCK, off_by=12, program=0)]


def test_descriptors_before_compute_capability_9_are_not_checked(make_gpu: MakeGpu) -> None:
    gpu = make_gpu((8, 0))
    x = torch.zeros(8 * 18 + 3)[3:]
    moving_kernel()(x, torch.empty(8, 8), 18, 2)
    assert not [event for event in gpu.memory if isinstance(event, Misaligned)]


@pytest.mark.parametrize(("capability", "overwritten"), [((8, 0), 0), ((9, 0), 8), ((10, 0), 8)])
def test_a_store_of_the_tma_engine_ends_at_16_bytes(
    make_gpu: MakeGpu, capability: tuple[int, int], overwritten: int
) -> None:
    @triton.jit
    def kernel(out, B: tl.constexpr):
        out.store([0, 0], tl.full((8, B), 1.0, tl.float32))

    gpu = make_gpu(capability)
    kernel[(1,)](TensorDescriptor.from_tensor(torch.zeros(8, 16)[:, :15], [8, 16]), 16)
    assert sum(event.lanes for event in gpu.memory if isinstance(event, Stray)) == overwritten
