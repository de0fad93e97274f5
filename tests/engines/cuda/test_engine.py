"""The runs of the cuda engine, on CPU memory: the same code that runs on a GPU."""

import ctypes
import os
from typing import Any

import pytest
import torch

from harness.engines.cuda.emulation import CONNECTIONS
from harness.engines.cuda.engine import CudaEngine
from harness.engines.cuda.green_context import SmLimit
from harness.engines.cuda.launches import WatchedLaunches
from harness.engines.cuda.memory.redzones import RedzoneMemory
from harness.engines.triton import triton_seam
from harness.errors import CannotExecute
from harness.model.op import Op
from harness.model.run import Completed, Faulted, FaultOf, Run
from harness.model.verdict import Fail
from harness.oracles import registry
from tests.execution.ops_for_tests import ROWS, case, op

ILLEGAL = "CUDA error: an illegal memory access was encountered"
REPEATED = 8
"""The seed of a case that is repeated."""


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> CudaEngine:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    made = CudaEngine()
    made._memory = RedzoneMemory("cpu")
    made._execution = made._make_execution(made._memory)
    made._launches = WatchedLaunches(90, lambda: made._chooser.chosen, made._memory)
    return made


@pytest.mark.parametrize(("chosen", "expected"), [(None, "1"), ("32", "32")])
def test_prepare_limits_the_worker_to_one_queue_unless_the_user_chooses(
    engine: CudaEngine, monkeypatch: pytest.MonkeyPatch, chosen: str | None, expected: str
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", "cache")
    monkeypatch.setenv(CONNECTIONS, chosen or "")
    if chosen is None:
        monkeypatch.delenv(CONNECTIONS)
    monkeypatch.setattr(triton_seam, "hash_compiler", lambda: None)
    engine.prepare()
    assert os.environ[CONNECTIONS] == expected


def doubles(x: Any) -> Any:
    return 2 * x


def fails(run: Run) -> list[tuple[str, str]]:
    judged = registry.judge_all(run, {}, {})
    return [(one.signature.oracle, one.message) for one in judged if isinstance(one, Fail)]


def fails_at_call(number: int) -> Op:
    calls = 0

    def call(x: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            raise RuntimeError(ILLEGAL)
        return 2 * x

    return op(call, doubles, {"x": ROWS})


def test_a_fault_of_the_second_run_fails_the_case(engine: CudaEngine) -> None:
    assert engine.run(fails_at_call(9), case(seed=REPEATED)).ending == Completed()
    run = engine.run(fails_at_call(2), case(seed=REPEATED))
    assert isinstance(run.ending, Faulted)
    assert run.ending.fault is FaultOf.ILLEGAL_ADDRESS
    assert [(oracle, "as the case ran a second time" in message) for oracle, message in fails(run)] == [
        ("completes", True)
    ]


def test_a_fault_during_the_search_for_a_writer_fails_the_case(engine: CudaEngine) -> None:
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
    assert len(run.memory) == 1, "the store was found anyway"


@pytest.mark.parametrize("refuses", [(), ("ValueError",)])
def test_a_fault_behind_a_librarys_own_error_is_found(
    engine: CudaEngine, monkeypatch: pytest.MonkeyPatch, refuses: tuple[str, ...]
) -> None:
    def lost() -> None:
        raise RuntimeError(ILLEGAL)

    def call(x: Any) -> Any:
        monkeypatch.setattr(torch.cuda, "synchronize", lost)
        raise ValueError(f"cannot normalise {x.shape}")

    run = engine.run(op(call, doubles, {"x": ROWS}, refuses=refuses), case(seed=1))
    assert isinstance(run.ending, Faulted)


def test_a_case_on_fewer_sms_abstains_without_green_contexts(engine: CudaEngine) -> None:
    if torch.version.cuda:
        pytest.skip("this torch may have green contexts")
    message = (
        r"work held to 48 SMs, since torch .* make no green context \(PyTorch was not built with Green Context support"
    )
    with pytest.raises(CannotExecute, match=message), SmLimit(48).applied():
        pass
    engine._sm_limit = SmLimit(48)
    run = engine.run(op(doubles, doubles, {"x": ROWS}), case(seed=1))
    assert fails(run) == []
    assert "or --engine virtual" in str(run.ending)
