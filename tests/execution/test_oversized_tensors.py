"""Oversized tensors take no memory; torch's operations on them return zeros of the right shape."""

import resource
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from harness.errors import CannotExecute
from harness.execution.execution import Execution
from harness.execution.inputs import make_inputs
from harness.execution.oversized_tensors import LARGE, SparseMemory, sparse
from harness.execution.poison import FreshMemory
from harness.model.case import Case, Scale
from harness.model.input_spec import Integers, Segments, Tensor
from harness.model.op import Op
from harness.model.run import Completed, Unsupported
from harness.suite import tokens
from tests.execution.ops_for_tests import LAYER_NORM, case

ROWS = 2**21 + 3
"""The number of rows of 1,024 elements: more than 2^31 elements together."""
ROWS_OF_ONE = Tensor(shape=("T",))
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


def drawn(oversized: Case, declared: Integers | Segments) -> torch.Tensor:
    value = make_inputs(replace(LAYER_NORM, inputs={"value": declared}), oversized)["value"]
    assert value is not None
    return value


def test_integers_of_an_oversized_case_take_no_memory() -> None:
    oversized = replace(case(rows=2**31 + 9, columns=5), scale=Scale.OVERSIZED)
    before = resident_kib()
    labels = drawn(oversized, Integers(shape=("T",), high=7, ignore=-100))
    boundaries = Segments(total="T", count="D")
    bounds = [drawn(replace(oversized, seed=seed), boundaries).tolist() for seed in range(9)]
    assert resident_kib() - before < LITTLE_KIB
    assert (labels.shape, labels.dtype) == ((2**31 + 9,), torch.int64)
    assert [int(labels[at]) for at in (0, 2**30, -1)] == [6, 0, 6]
    assert all(one == sorted(set(one)) and (len(one), one[0], one[-1]) == (6, 0, 2**31 + 9) for one in bounds)


def test_few_integers_of_an_oversized_case_have_the_largest_at_both_ends() -> None:
    oversized = replace(case(rows=2**31 + 9, columns=5), scale=Scale.OVERSIZED)
    places = drawn(oversized, Integers(shape=("D",), high="T", dtype="int64"))
    assert [int(places[0]), int(places[-1])] == [2**31 + 8] * 2
    assert len(set(places.tolist())) > 2


def counted(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return x * (1.0 / int((at > 5).sum()))


def test_an_exception_after_a_value_of_an_oversized_tensor_is_nobodys_fault() -> None:
    inputs = {"x": ROWS_OF_ONE, "at": Integers(shape=("T",), high=7)}
    declared = Op(name="op", suite="tests", call=counted, reference=counted, dims={"T": tokens(9)}, inputs=inputs)
    oversized = replace(case(), op="tests:op", dims={"T": 2**31 + 9}, scale=Scale.OVERSIZED)
    ending, _ = Execution(SparseMemory).run(declared, oversized)
    assert isinstance(ending, Unsupported)
    assert ending.what == "host code that depends on values of an oversized tensor"


def test_an_exception_without_such_a_value_is_raised(oversized: torch.Tensor) -> None:
    with pytest.raises(ZeroDivisionError), SparseMemory():
        _ = int(torch.ones(3).sum()) / int(oversized.numel() - ROWS * 1024)


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


def test_operators_of_a_library_run_as_they_are(oversized: torch.Tensor) -> None:
    @torch.library.custom_op("harness_tests::rows_and_copy", mutates_args=())
    def rows_and_copy(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.full((2,), float(x.shape[0])), torch.empty_like(x)

    before = resident_kib()
    with SparseMemory():
        rows, copy = rows_and_copy(oversized)
    assert (rows.tolist(), copy.shape) == ([ROWS] * 2, oversized.shape)
    assert resident_kib() - before < LITTLE_KIB
