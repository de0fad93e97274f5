"""Judging on the GPU, for which torch's tensors on the CPU stand here: the same verdicts as with NumPy."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch

from harness.execution.definition_memory import DefinitionMemory
from harness.execution.execution import Execution
from harness.execution.gpu_judging import FROM_ELEMENTS, JudgingGpu, is_checked
from harness.model.case import Case, DType, Layout, ValueDistribution
from harness.model.op import Op
from harness.model.run import Completed, GpuJudgement, Result, Unsupported
from tests.execution.ops_for_tests import LAYER_NORM, RMS_NORM, case, layer_norm_call, layer_norm_reference

CPU = torch.device("cpu")


class Copied:
    """Copies tensors, as a transfer to a GPU and back does."""

    def to_gpu(self, values: torch.Tensor) -> torch.Tensor:
        return values.detach().clone().requires_grad_(values.requires_grad)

    def to_cpu(self, values: torch.Tensor) -> torch.Tensor:
        return values.detach().clone()


def executions() -> tuple[Execution, Execution]:
    """Return one that judges with NumPy, and one whose GPU is the CPU."""
    judging = JudgingGpu(device=CPU, most_bytes=lambda: 1 << 34)
    return Execution(nullcontext, transfer=Copied()), Execution(nullcontext, transfer=Copied(), judging=judging)


def large(seed: int = 1, op: Op = LAYER_NORM, **changes: Any) -> Case:
    return replace(case(rows=520, columns=136, seed=seed), op=op.id, **changes)


def unchecked(op: Op, made: Callable[[int], Case] = large) -> Case:
    """Return a case that the CPU does not compute as well."""
    return next(each for seed in range(1, 200, 2) if not is_checked(op, each := made(seed)))


def near(one: Result, other: Result) -> None:
    """Assert that two results have the same facts, but for float64's rounding."""
    plain = {"whole", "worst_tile", "sketch", "sketch_tolerance"}
    fields = {name: getattr(one, name) for name in one.__slots__ if name not in plain}
    assert fields == {name: getattr(other, name) for name in fields}
    for name in ("whole", "worst_tile"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert mine.index == theirs.index
        assert mine.got == pytest.approx(theirs.got, nan_ok=True)
        assert mine.ratio == pytest.approx(theirs.ratio, rel=1e-5)
    assert one.sketch == pytest.approx(other.sketch, nan_ok=True)


@pytest.mark.parametrize("values", [each for each in ValueDistribution if each is not ValueDistribution.NAN_TAINTED])
@pytest.mark.parametrize("dtype", [DType.FP32, DType.BF16, DType.FP16])
def test_a_gpu_finds_the_same_facts_as_the_cpu(dtype: DType, values: ValueDistribution) -> None:
    by_cpu, by_gpu = executions()
    layouts = {"x": Layout.STRIDED, "grad": Layout.TRANSPOSED}
    judged = unchecked(LAYER_NORM, lambda seed: large(seed, dtype=dtype, values=values, layouts=layouts))
    (ending, expected), (own_ending, results) = by_cpu.run(LAYER_NORM, judged), by_gpu.run(LAYER_NORM, judged)
    assert (ending, own_ending) == (Completed(), Completed())
    assert by_cpu.judged_on_gpu is None
    assert by_gpu.judged_on_gpu == GpuJudgement(is_checked=False)
    for one, other in zip(expected, results, strict=True):
        near(one, other)


def wrong_row(x: torch.Tensor, w: torch.Tensor | None, b: torch.Tensor | None) -> torch.Tensor:
    y = layer_norm_call(x, w, b)
    return torch.cat([y[:-1], y[-1:] + 0.5])


def test_the_cpu_decides_about_a_result_that_is_not_right() -> None:
    by_cpu, by_gpu = executions()
    op = replace(LAYER_NORM, call=wrong_row)
    judged = unchecked(op)
    assert by_gpu.run(op, judged) == by_cpu.run(op, judged)
    assert by_gpu.judged_on_gpu == GpuJudgement(is_checked=True)


def test_the_cpu_computes_a_share_of_the_cases_as_well() -> None:
    by_cpu, by_gpu = executions()
    shares = [each for seed in range(1, 2000, 2) if is_checked(RMS_NORM, each := large(seed, RMS_NORM))]
    assert 3 <= len(shares) <= 20
    assert by_gpu.run(RMS_NORM, shares[0]) == by_cpu.run(RMS_NORM, shares[0])
    assert by_gpu.judged_on_gpu == GpuJudgement(is_checked=True)


class Elsewhere:
    """A definition that gives other numbers on a GPU."""

    def __init__(self) -> None:
        self.is_on_gpu = True

    def __call__(self, x: torch.Tensor, w: torch.Tensor | None, b: torch.Tensor | None) -> torch.Tensor:
        y = layer_norm_reference(x, w, b)
        return y + 0.1 if self.is_on_gpu else y


def test_a_definition_that_differs_on_the_gpu_is_named_and_the_cpu_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    definition = Elsewhere()
    op = replace(LAYER_NORM, reference=definition)
    _, by_gpu = executions()
    alone = by_gpu._judged_alone

    def judged_alone(*args: Any, **kwargs: Any) -> Any:
        definition.is_on_gpu = True
        try:
            return alone(*args, **kwargs)
        finally:
            definition.is_on_gpu = False

    monkeypatch.setattr(by_gpu, "_judged_alone", judged_alone)
    ending, results = by_gpu.run(op, unchecked(op))
    assert ending == Completed()
    assert all(result.is_right for result in results)
    assert by_gpu.judged_on_gpu == GpuJudgement(is_checked=True, differing=("y",))


def test_small_tainted_and_sampled_cases_stay_on_the_cpu() -> None:
    gpu = JudgingGpu(device=CPU, most_bytes=lambda: 1 << 34)
    op = replace(LAYER_NORM, independent=("T",))
    assert gpu.takes(op, large())
    assert not gpu.takes(op, case(rows=1, columns=FROM_ELEMENTS - 1))
    assert not gpu.takes(op, large(values=ValueDistribution.NAN_TAINTED))
    assert not gpu.takes(op, large(dtype=DType.FP64))
    assert not gpu.takes(op, large(seed=8))
    assert gpu.takes(LAYER_NORM, large(seed=8))
    assert not gpu.takes(replace(op, defined=torch.isfinite), large())


def test_a_case_too_large_for_the_cpu_is_judged_by_the_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def allows(memory: DefinitionMemory, op: Op, case: Case) -> bool:
        del op, case
        return memory.most_bytes > 1 << 32

    monkeypatch.setattr(DefinitionMemory, "allows", allows)
    by_cpu, by_gpu = executions()
    op = replace(LAYER_NORM, call=wrong_row)
    ending, _ = by_cpu.run(op, large())
    assert isinstance(ending, Unsupported)
    ending, results = by_gpu.run(op, large())
    assert ending == Completed()
    assert [result.name for result in results if not result.is_right] == ["y"]
    assert results[0].wrong_map is not None
    assert by_gpu.judged_on_gpu == GpuJudgement(is_checked=False)


def test_the_cpu_judges_if_other_processes_have_the_gpus_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    by_cpu, by_gpu = executions()

    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(by_gpu, "_judged_alone", full)
    assert by_gpu.run(RMS_NORM, large(op=RMS_NORM)) == by_cpu.run(RMS_NORM, large(op=RMS_NORM))
    assert by_gpu.judged_on_gpu is None


@pytest.mark.parametrize("option", ["allow_tf32", "fp32_precision"])
def test_products_of_definitions_ignore_what_a_library_chose_for_its_own(option: str) -> None:
    products = torch.backends.cuda.matmul
    before = products.fp32_precision
    setattr(products, option, True if option == "allow_tf32" else "tf32")
    try:
        with JudgingGpu(device=CPU, most_bytes=lambda: 0).computing():
            assert products.fp32_precision == "ieee"
            assert not products.allow_bf16_reduced_precision_reduction
        assert products.fp32_precision == "tf32"
        assert products.allow_bf16_reduced_precision_reduction
    finally:
        products.allow_tf32 = False
        products.fp32_precision = before
