"""Inputs of every element type: in the type's range, in every layout, and with the type's own precision."""

from typing import Any, get_args

import pytest
import torch

from harness import catalogue
from harness.execution.definition_memory import DefinitionMemory
from harness.execution.inputs import TORCH_DTYPES, draw, make_cotangents, make_inputs
from harness.execution.integer_inputs import INTEGER_DTYPES
from harness.execution.layouts import lay_out
from harness.execution.tolerance import NO_ERROR, Expected, Truth, error_of, tolerance_of
from harness.model.case import Case, DType, Layout, ValueDistribution
from harness.model.input_spec import Integer, Integers, Tensor
from harness.model.op import Dim, Op
from harness.model.run import Role


def case(dtype: DType, values: ValueDistribution = ValueDistribution.NORMAL) -> Case:
    return Case(op="s.py:op", dims={"T": 40, "D": 33}, dtype=dtype, device=catalogue.find("b200"), values=values)


def op(given: Tensor | Integers, reference: Any = lambda x: x) -> Op:
    dims = {"T": Dim(low=1, high=64), "D": Dim(low=1, high=64)}
    return Op(
        name="op", suite="s.py", call=reference, reference=reference, dims=dims, inputs={"x": given}, apart=("T",)
    )


@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize("values", list(ValueDistribution))
def test_numbers_are_finite_and_in_the_range_of_their_type(dtype: DType, values: ValueDistribution) -> None:
    drawn = draw(case(dtype, values), "x", (40, 33), TORCH_DTYPES[dtype])
    wide = drawn.to(torch.float64)
    assert drawn.dtype is TORCH_DTYPES[dtype]
    assert bool(torch.isfinite(wide).all())
    assert len(wide.unique()) > 4 or dtype in {DType.FP8_E8M0, DType.INT8, DType.INT32}
    assert (values is ValueDistribution.TINY and dtype is not DType.FP8_E8M0) == (float(wide.abs().max()) < 0.2)


@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize("layout", [Layout.OFFSET, Layout.STRIDED])
def test_the_memory_around_a_tensor_shows(dtype: DType, layout: Layout) -> None:
    drawn = draw(case(dtype), "x", (4, 8), TORCH_DTYPES[dtype])
    made = lay_out(drawn, layout)
    around = torch.tensor([], dtype=made.dtype).set_(made.untyped_storage()).to(torch.float64)
    limit = float("nan") if dtype.is_float else torch.iinfo(made.dtype).max
    assert torch.equal(made.to(torch.float64), drawn.to(torch.float64))
    torch.testing.assert_close(around[-1], torch.tensor(limit, dtype=torch.float64), equal_nan=True)


def test_float64_has_digits_that_float32_lacks() -> None:
    drawn = draw(case(DType.FP64), "x", (40, 33), torch.float64)
    assert bool((drawn.to(torch.float32).to(torch.float64) != drawn).all())


@pytest.mark.parametrize("dtype", list(DType))
def test_only_differentiable_types_require_a_gradient(dtype: DType) -> None:
    tainted = case(dtype, ValueDistribution.NAN_TAINTED)
    made = make_inputs(op(Tensor(shape=("T", "D"))), tainted)["x"]
    assert made is not None
    assert made.requires_grad == dtype.is_differentiable
    assert bool(torch.isfinite(made.detach().to(torch.float64)).all()) != dtype.is_differentiable
    cotangent = make_cotangents(tainted, {"y": made.detach()})["y"]
    assert (cotangent.dtype, bool(cotangent.to(torch.float64).any())) == (made.dtype, dtype.is_float)
    DefinitionMemory().check(op(Tensor(shape=("T", "D"))), tainted)


@pytest.mark.parametrize("dtype", get_args(Integer))
def test_integers_of_every_width_keep_their_limits(dtype: Integer) -> None:
    low, high = (0, 2) if dtype == "bool" else (0, 256) if dtype == "uint8" else (-128, 128)
    made = make_inputs(op(Integers(shape=("T", "D"), low=low, high=high, dtype=dtype)), case(DType.FP32))["x"]
    assert made is not None
    assert made.dtype is INTEGER_DTYPES[dtype]
    assert (int(made.to(torch.int64).min()), int(made.to(torch.int64).max())) == (low, high - 1)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_rounding_to_eight_bits_passes_and_truncation_does_not(dtype: torch.dtype) -> None:
    exact = draw(case(DType.FP64), "x", (40, 33), torch.float64)
    truth = Truth.of(exact.numpy())
    expected = Expected(role=Role.OUTPUT, truth=truth, baseline=NO_ERROR, rounding=NO_ERROR, samples=0)
    tolerance = tolerance_of(expected, dtype, slack=2.0)
    rounded = exact.to(torch.float32).to(dtype)
    bits = {torch.float8_e4m3fn: 20, torch.float8_e5m2: 21}[dtype]
    cut = (exact.to(torch.float32).view(torch.int32) >> bits << bits).view(torch.float32).to(dtype)
    assert error_of([rounded.to(torch.float64).numpy()], truth).whole <= tolerance.whole
    assert error_of([cut.to(torch.float64).numpy()], truth).whole > 1.5 * tolerance.whole
