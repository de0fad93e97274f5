"""The flight recorder shows Triton's activity in a process: calls, compilations, launches, swallowed errors."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from harness.execution import flight_recorder
from harness.execution.flight_recorder import Activity, Edge, FlightEvent
from harness.workers.supervision.recorder_reader import Recorder
from tests.engines.conftest import Gpu

ReadEvents = Callable[[], list[FlightEvent]]


@pytest.fixture
def read_events() -> Iterator[ReadEvents]:
    """Returns the events that this process recorded since the test began."""
    recorder = Recorder()
    flight_recorder.attach(os.dup(recorder.fd))
    recorder.hand_over()
    yield lambda: list(recorder.since(0).events)
    flight_recorder.detach()
    recorder.close()


def summaries(events: list[FlightEvent]) -> list[tuple[Activity, Edge, str]]:
    return [(event.kind, event.edge, event.detail) for event in events]


@triton.autotune(configs=[triton.Config({"WAY": 3}, num_warps=2)], key=["n"])
@triton.jit
def watched_kernel(out, n, WAY: tl.constexpr):
    tl.store(out, WAY + n)


def test_a_kernel_is_called_compiled_once_and_launched(gpu: Gpu, read_events: ReadEvents) -> None:
    del gpu
    for _ in range(2):
        watched_kernel[(1,)](torch.zeros(1, dtype=torch.int32), 7)
    events = read_events()
    assert {event.subject for event in events} == {"watched_kernel"}
    compiled = [(Activity.COMPILE, Edge.BEGINS, ""), (Activity.COMPILE, Edge.ENDS, "")]
    launched = [(Activity.LAUNCH, Edge.BEGINS, "grid (1, 1, 1), num_warps: 2"), (Activity.LAUNCH, Edge.ENDS, "")]
    first, *_ = events
    assert first.detail.startswith("WAY: 3, num_warps: 2")
    begins, ends = (Activity.CALL, Edge.BEGINS, first.detail), (Activity.CALL, Edge.ENDS, "")
    assert summaries(events) == [begins, *compiled, *launched, ends, begins, *launched, ends]


@triton.jit
def refused_kernel(out, WAY: tl.constexpr):
    tl.static_assert(WAY != 1, "there is no such way")
    tl.store(out, WAY)


def test_an_exception_that_ends_a_call_is_recorded(gpu: Gpu, read_events: ReadEvents) -> None:
    del gpu
    with pytest.raises(triton.CompilationError):
        refused_kernel[(1,)](torch.zeros(1, dtype=torch.int32), 1)
    last, before = read_events()[-1], read_events()[-2]
    assert (before.kind, before.edge, last.kind, last.edge) == (Activity.COMPILE, Edge.ENDS, Activity.CALL, Edge.ENDS)
    assert last.detail == "CompileTimeAssertionFailure"


def test_an_error_that_an_autotuner_swallows_is_recorded_with_its_config(gpu: Gpu, read_events: ReadEvents) -> None:
    del gpu
    configs = [triton.Config({"WAY": way}) for way in (0, 1)]
    tuner: Any = triton.autotune(configs=configs, key=[], do_bench=run_once)(refused_kernel)
    tuner.nargs = {}
    call: Any = {"grid": (1,), "warmup": False}
    out = torch.zeros(1, dtype=torch.int32)
    timings = [tuner._bench(out, config=config, **call) for config in configs]
    assert timings == [1.0, [float("inf")] * 3]
    (hidden,) = (event for event in read_events() if event.kind is Activity.SWALLOWED)
    assert hidden.subject == "refused_kernel"
    assert hidden.detail.startswith("CompileTimeAssertionFailure (")
    assert ", for config WAY: 1, num_warps: 4" in hidden.detail


def run_once(call: Callable[[], None], quantiles: object) -> float:
    del quantiles
    call()
    return 1.0
