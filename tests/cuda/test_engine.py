"""The cuda engine's account of a case, on memory of the CPU: the same code that runs on a GPU."""

import ctypes
from typing import Any

import pytest
import torch

from harness.cuda.engine import CudaEngine
from harness.cuda.green_context import Restriction
from harness.cuda.launches import WatchedLaunches
from harness.cuda.memory.redzones import GuardedMemory
from harness.errors import CannotExecute
from harness.model.op import Op
from harness.model.run import Completed, Faulted, FaultOf, Run
from harness.model.verdict import Fail
from harness.oracles import registry
from tests.ops.ops_for_tests import ROWS, case, op

ILLEGAL = "CUDA error: an illegal memory access was encountered"
REPEATED = 8
"""The seed of a case that is run a second time."""


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> CudaEngine:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    made = CudaEngine()
    made._memory = GuardedMemory("cpu")
    made._execution = made._execution_in(made._memory)
    made._launches = WatchedLaunches(90, lambda: made._chooser.chosen, made._memory)
    return made


def doubles(x: Any) -> Any:
    return 2 * x


def fails(run: Run) -> list[tuple[str, str]]:
    judged = registry.judge_all(run, {}, {})
    return [(one.signature.oracle, one.message) for one in judged if isinstance(one, Fail)]


def that_fails_at_call(number: int) -> Op:
    calls = 0

    def call(x: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            raise RuntimeError(ILLEGAL)
        return 2 * x

    return op(call, doubles, {"x": ROWS})


def test_a_fault_that_only_the_second_run_meets_is_the_cases_own(engine: CudaEngine) -> None:
    assert engine.run(that_fails_at_call(9), case(seed=REPEATED)).ending == Completed()
    run = engine.run(that_fails_at_call(2), case(seed=REPEATED))
    assert isinstance(run.ending, Faulted)
    assert run.ending.fault is FaultOf.ILLEGAL_ADDRESS
    assert [(oracle, "as the case ran a second time" in message) for oracle, message in fails(run)] == [
        ("completes", True)
    ]


def test_a_fault_while_it_is_looked_whose_store_it_was_is_the_cases_own(engine: CudaEngine) -> None:
    calls = 0

    def call(x: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise RuntimeError(ILLEGAL)
        ctypes.memset(x.data_ptr() + x.numel() * x.element_size(), 0, 1)
        return 2 * x

    run = engine.run(op(call, doubles, {"x": ROWS}), case(seed=1))
    assert isinstance(run.ending, Faulted)
    assert len(run.memory) == 1, "the store was seen all the same"


@pytest.mark.parametrize("refuses", [(), ("ValueError",)])
def test_a_fault_that_the_library_puts_in_words_of_its_own_is_asked_of_the_gpu(
    engine: CudaEngine, monkeypatch: pytest.MonkeyPatch, refuses: tuple[str, ...]
) -> None:
    def lost() -> None:
        raise RuntimeError(ILLEGAL)

    def call(x: Any) -> Any:
        monkeypatch.setattr(torch.cuda, "synchronize", lost)
        raise ValueError(f"cannot normalise {x.shape}")

    run = engine.run(op(call, doubles, {"x": ROWS}, refuses=refuses), case(seed=1))
    assert isinstance(run.ending, Faulted)


def test_without_green_contexts_a_case_on_fewer_sms_is_not_judged_and_says_why(engine: CudaEngine) -> None:
    if torch.version.cuda:
        pytest.skip("this torch may have green contexts")
    built = (
        r"work held to 48 SMs, since torch .* make no green context \(PyTorch was not built with Green Context support"
    )
    with pytest.raises(CannotExecute, match=built), Restriction(48).held():
        pass
    engine._restriction = Restriction(48)
    run = engine.run(op(doubles, doubles, {"x": ROWS}), case(seed=1))
    assert fails(run) == []
    assert "or --engine virtual" in str(run.ending)
