"""On hardware: inputs have the CPU's bits, and results that the GPU judges have the CPU's facts.

Each check starts CUDA in a process of its own, since other tests fork this one.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from multiprocessing import get_context

import pytest
import torch

from harness.engines.cuda.gpus.inventory import RealGpu
from harness.engines.cuda.memory.redzones import RedzoneMemory
from harness.execution import counter_numbers, inputs
from harness.execution.execution import Execution
from harness.execution.gpu_judging import JudgingGpu
from harness.model.case import DType, Layout, ValueDistribution
from harness.model.run import Completed
from tests.execution.ops_for_tests import LAYER_NORM, RMS_NORM, case

pytestmark = pytest.mark.gpu

DTYPES = (DType.FP32, DType.BF16, DType.FP16)
LAYOUTS = tuple(layout for layout in Layout if layout is not Layout.BROADCAST)


@pytest.mark.parametrize("values", list(ValueDistribution))
def test_a_gpu_draws_the_cpus_bits(gpu: RealGpu, values: ValueDistribution) -> None:
    del gpu
    in_own_process(check_bits, values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_gpu_judges_as_the_cpu_does(gpu: RealGpu, dtype: DType) -> None:
    del gpu
    in_own_process(check_judgements, dtype)


def in_own_process(check: Callable[[str], None], argument: str) -> None:
    child = get_context("spawn").Process(target=check, args=(argument,))
    child.start()
    child.join()
    status = child.exitcode
    child.close()
    assert status == 0


def check_bits(values: str) -> None:
    counter_numbers.LARGE = 1 << 16
    on_gpu = torch.device("cuda")
    for dtype in DTYPES:
        for layout in LAYOUTS:
            layouts = {"x": layout, "grad": layout}
            drawn = case(rows=300, columns=300, dtype=dtype, values=ValueDistribution(values), layouts=layouts)
            outputs = {"y": torch.empty(300, 300)}
            here = {**inputs.make_inputs(LAYER_NORM, drawn), **inputs.make_cotangents(drawn, outputs)}
            there = {**inputs.make_inputs(LAYER_NORM, drawn, on_gpu), **inputs.make_cotangents(drawn, outputs, on_gpu)}
            for name, value in here.items():
                other = there[name]
                assert value is not None
                assert other is not None
                assert value.stride() == other.stride()
                assert torch.equal(value.nan_to_num(), other.cpu().nan_to_num())
    words = torch.arange(1 << 20)
    assert counter_numbers.checksum(words) == counter_numbers.checksum(words.cuda())
    assert torch.equal(counter_numbers.signs(3, 1 << 20), counter_numbers.signs(3, 1 << 20, on_gpu).cpu())


def check_judgements(dtype: str) -> None:
    memory = RedzoneMemory()
    by_cpu = Execution(nullcontext, transfer=memory)
    judging = JudgingGpu(device=torch.device("cuda"), most_bytes=lambda: 1 << 34)
    by_gpu = Execution(nullcontext, transfer=memory, judging=judging)
    for op in (LAYER_NORM, RMS_NORM):
        for seed in range(1, 9):
            layouts = {"x": Layout.STRIDED if seed % 2 else Layout.CONTIGUOUS, "grad": Layout.TRANSPOSED}
            drawn = case(rows=520, columns=136, dtype=DType(dtype), seed=seed, layouts=layouts)
            judged = replace(drawn, op=op.id)
            (ending, expected), (own_ending, results) = by_cpu.run(op, judged), by_gpu.run(op, judged)
            assert (ending, own_ending) == (Completed(), Completed())
            assert by_gpu.judged_on_gpu is not None
            assert by_gpu.judged_on_gpu.differing == ()
            for one, other in zip(expected, results, strict=True):
                assert (one.name, one.shape, one.kind, one.digest) == (
                    other.name,
                    other.shape,
                    other.kind,
                    other.digest,
                )
                assert (one.is_right, one.nonfinite, one.unjudged) == (other.is_right, other.nonfinite, other.unjudged)
                # The eager baseline adds up in another order there.
                assert other.whole.ratio == pytest.approx(one.whole.ratio, rel=0.05)
            memory.forget()
