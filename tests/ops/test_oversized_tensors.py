"""Oversized tensors take no memory; torch's operations on them return zeros of the right shape."""

import resource
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from harness.errors import CannotExecute
from harness.model.case import Scale
from harness.model.run import Completed, Unsupported
from harness.ops.execution import Execution
from harness.ops.oversized_tensors import LARGE, SparseMemory, sparse
from harness.ops.poison import FreshMemory
from tests.ops.ops_for_tests import LAYER_NORM, case

ROWS = 2**21 + 3
"""The number of rows of 1,024 elements: more than 2^31 elements together."""
LITTLE_KIB = 1 << 20
"""The allowed memory: an eighth of such a tensor in float32, since torch loads code at first use."""


def resident_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.fixture
def oversized() -> torch.Tensor:
    return sparse((ROWS, 1024), torch.float32)


def test_only_touched_pages_of_a_sparse_tensor_take_memory(oversized: torch.Tensor) -> None:
    before = resident_kib()
    oversized[-1, -1] = 3.0
    assert (float(oversized[-1, -1]), float(oversized[0, 0]), oversized.numel() > 2**31) == (3.0, 0.0, True)
    assert resident_kib() - before < LITTLE_KIB


@pytest.mark.parametrize(
    "make",
    [
        torch.empty_like,
        torch.zeros_like,
        lambda x: x.new_empty(x.shape),
        lambda x: torch.empty(x.shape, dtype=x.dtype),
        lambda x: torch.ones(x.shape, dtype=x.dtype),
        lambda x: x.exp() + x,
        lambda x: x.clone(),
    ],
)
def test_large_results_of_torch_are_sparse(
    oversized: torch.Tensor, make: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    before = resident_kib()
    with SparseMemory():
        made = make(oversized)
    assert (made.shape, made.dtype, made.stride()) == (oversized.shape, oversized.dtype, oversized.stride())
    assert made.untyped_storage().nbytes() == oversized.untyped_storage().nbytes()
    assert resident_kib() - before < LITTLE_KIB


def test_views_stay_views_and_small_results_are_small(oversized: torch.Tensor) -> None:
    with SparseMemory():
        view = oversized.view(-1, 512).transpose(0, 1)
        total = oversized.sum(0)
        half = oversized.to(torch.float16)
        oversized.add_(1.0)
        small = torch.ones(4) + torch.arange(4)
    assert view.untyped_storage().data_ptr() == oversized.untyped_storage().data_ptr()
    assert (total.shape, half.dtype, half.shape) == ((1024,), torch.float16, oversized.shape)
    assert float(oversized[0, 0]) == 0.0
    assert small.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_operations_whose_shape_depends_on_values_are_refused(oversized: torch.Tensor) -> None:
    with SparseMemory(), pytest.raises(CannotExecute, match="nonzero"):
        torch.nonzero(oversized)


def test_an_oversized_case_runs_forward_and_backward_without_comparison() -> None:
    before = resident_kib()
    ending, results = Execution(FreshMemory).run(LAYER_NORM, case(rows=ROWS, columns=1024, scale=Scale.OVERSIZED))
    assert (ending, results) == (Completed(), ())
    assert resident_kib() - before < LITTLE_KIB


def test_an_oversized_case_whose_shapes_depend_on_values_is_unsupported() -> None:
    op = replace(LAYER_NORM, call=lambda x: torch.nonzero(x).float())
    ending, _ = Execution(FreshMemory).run(op, case(rows=ROWS, columns=1024, scale=Scale.OVERSIZED))
    assert isinstance(ending, Unsupported)
    assert "nonzero" in ending.what


def test_a_tensor_just_below_the_limit_is_drawn_as_usual() -> None:
    assert LARGE < 2**31
