"""Tensor descriptors on the virtual GPU: blocks that extend past a tensor's edges."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN202, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from harness.model.run import OrderDependence

ROWS, COLUMNS, BLOCK = 5, 12, 8


def with_scratch(launch: Callable[[], object]) -> None:
    """Launch in a thread with Triton's allocator set, as libraries that use descriptors do."""

    def allocate(size: int, align: int, stream: int | None) -> torch.Tensor:
        del align, stream
        return torch.empty(size, dtype=torch.int8)

    def run() -> None:
        triton.set_allocator(allocate)
        launch()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(run).result()


def copying_kernel(padding: str) -> Any:
    @triton.jit
    def kernel(x, out, M, N, PADDING: tl.constexpr, B: tl.constexpr):
        block = tl.make_tensor_descriptor(x, [M, N], [N, 1], [B, B], padding_option=PADDING)
        at = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
        tl.store(out + tl.program_id(0) * B * B + at, block.load([tl.program_id(0) * 4 - 2, tl.program_id(0) * 12 - 4]))

    return lambda x, out: kernel[(2,)](x, out, ROWS, COLUMNS, padding, BLOCK)


def storing_kernel() -> Any:
    @triton.jit
    def kernel(out, M, N, B: tl.constexpr):
        block = tl.make_tensor_descriptor(out, [M, N], [N, 1], [B, B])
        first = tl.program_id(0) * B
        block.store([0, first], tl.full([B, B], 1.0, tl.float32) + tl.program_id(0))

    return lambda out: kernel[(2,)](out, ROWS, COLUMNS, BLOCK)


@pytest.mark.parametrize(("padding", "fill"), [("zero", 0.0), ("nan", math.nan)])
def test_elements_outside_the_tensor_read_as_padding(make_gpu: Any, padding: str, fill: float) -> None:
    gpu = make_gpu((9, 0))
    x, out = torch.randn(ROWS, COLUMNS), torch.empty(2, BLOCK, BLOCK)
    launch = copying_kernel(padding)
    with_scratch(lambda: launch(x, out))
    around = torch.full((3 * BLOCK, 3 * BLOCK), fill)
    around[2 : 2 + ROWS, 4 : 4 + COLUMNS] = x
    expected = torch.stack([around[:BLOCK, :BLOCK], around[4 : 4 + BLOCK, 12 : 12 + BLOCK]])
    torch.testing.assert_close(out, expected, rtol=0, atol=0, equal_nan=True)
    assert gpu.case_launches.memory == []


def test_elements_outside_the_tensor_are_not_stored(make_gpu: Any) -> None:
    gpu = make_gpu((9, 0))
    storage = torch.full((ROWS + 2, COLUMNS), -1.0)
    launch = storing_kernel()
    with_scratch(lambda: launch(storage[:ROWS]))
    expected = torch.full((ROWS + 2, COLUMNS), -1.0)
    expected[:ROWS, :BLOCK] = 1.0
    expected[:ROWS, BLOCK:] = 2.0
    assert torch.equal(storage, expected)
    assert gpu.case_launches.memory == []


def rolling_kernel() -> Any:
    @triton.jit
    def kernel(x, N: tl.constexpr, B: tl.constexpr):
        block = tl.make_tensor_descriptor(x, [N, B], [B, 1], [1, B])
        row = tl.program_id(0)
        block.store([(row + 1) % N, 0], block.load([row, 0]))

    return lambda x: kernel[(ROWS,)](x, ROWS, BLOCK)


def test_an_order_dependence_through_descriptors_is_detected(make_gpu: Any) -> None:
    gpu = make_gpu((9, 0))
    launch = rolling_kernel()
    with_scratch(lambda: launch(torch.randn(ROWS, BLOCK)))
    (event,) = gpu.case_launches.memory
    assert isinstance(event, OrderDependence)
    assert (event.site.argument, event.cells) == ("x", ROWS * BLOCK)
