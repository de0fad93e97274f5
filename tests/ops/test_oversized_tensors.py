"""Giant tensors take no memory, and what torch does with them is imagined: shapes are right, values are zeros."""

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
"""Of 1,024 elements: more than 2^31 together."""
LITTLE_KIB = 1 << 20
"""An eighth of such a tensor in float32: torch loads code of its own when it first imagines a result."""


def resident_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.fixture
def giant() -> torch.Tensor:
    return sparse((ROWS, 1024), torch.float32)


def test_only_what_is_touched_of_a_sparse_tensor_takes_memory(giant: torch.Tensor) -> None:
    before = resident_kib()
    giant[-1, -1] = 3.0
    assert (float(giant[-1, -1]), float(giant[0, 0]), giant.numel() > 2**31) == (3.0, 0.0, True)
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
def test_what_torch_makes_large_is_sparse_too(
    giant: torch.Tensor, make: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    before = resident_kib()
    with SparseMemory():
        made = make(giant)
    assert (made.shape, made.dtype, made.stride()) == (giant.shape, giant.dtype, giant.stride())
    assert made.untyped_storage().nbytes() == giant.untyped_storage().nbytes()
    assert resident_kib() - before < LITTLE_KIB


def test_views_stay_views_and_small_results_are_small(giant: torch.Tensor) -> None:
    with SparseMemory():
        view = giant.view(-1, 512).transpose(0, 1)
        total = giant.sum(0)
        half = giant.to(torch.float16)
        giant.add_(1.0)
        small = torch.ones(4) + torch.arange(4)
    assert view.untyped_storage().data_ptr() == giant.untyped_storage().data_ptr()
    assert (total.shape, half.dtype, half.shape) == ((1024,), torch.float16, giant.shape)
    assert float(giant[0, 0]) == 0.0
    assert small.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_what_depends_on_values_is_refused(giant: torch.Tensor) -> None:
    with SparseMemory(), pytest.raises(CannotExecute, match="nonzero"):
        torch.nonzero(giant)


def test_a_giant_case_runs_forward_and_backward_and_is_compared_with_nothing() -> None:
    before = resident_kib()
    ending, results = Execution(FreshMemory).run(LAYER_NORM, case(rows=ROWS, columns=1024, scale=Scale.GIANT))
    assert (ending, results) == (Completed(), ())
    assert resident_kib() - before < LITTLE_KIB


def test_a_giant_case_whose_shapes_depend_on_values_is_unsupported() -> None:
    op = replace(LAYER_NORM, call=lambda x: torch.nonzero(x).float())
    ending, _ = Execution(FreshMemory).run(op, case(rows=ROWS, columns=1024, scale=Scale.GIANT))
    assert isinstance(ending, Unsupported)
    assert "nonzero" in ending.what


def test_a_tensor_just_below_the_limit_is_drawn_as_usual() -> None:
    assert LARGE < 2**31
