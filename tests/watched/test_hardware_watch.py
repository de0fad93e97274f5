"""The watch of launches on hardware; here nothing is launched, memory is the CPU's, and graphs repeat functions."""

import ctypes
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness import catalogue
from harness.engines.cuda import captured_launches
from harness.engines.cuda.launches import WatchedLaunches
from harness.engines.cuda.memory.redzones import RedzoneMemory
from harness.engines.triton.driver import LaunchRequest
from harness.engines.triton.triton_seam import ConfigChooser
from harness.patches import Patches
from harness.watched.hardware_watch import BESIDE, CAPTURED, HardwareWatch
from harness.watched.launch_recorder import LaunchRecorder
from harness.watched.program_threads import CallingLines
from harness.watched.watch_records import (
    PER_LAUNCH,
    LaunchFailure,
    RecordFiles,
    TestChecks,
    WatchPlan,
    read_checks,
    read_failures,
)

DEVICE = catalogue.find("h200")
TTIR = """
module {
  tt.func public @NAME(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) attributes {noinline = false} {
    %value = tt.load %x : !tt.ptr<f32>
    tt.store %y, %value : !tt.ptr<f32>
    tt.return
  }
}
"""


class FakeGraph:
    """A graph with torch's methods, whose steps are functions."""

    capturing: "FakeGraph | None" = None

    def __init__(self) -> None:
        self.steps: list[Callable[[], None]] = []

    def capture_begin(self, pool: object = None, capture_error_mode: str = "global") -> None:
        del pool, capture_error_mode
        FakeGraph.capturing = self

    def capture_end(self) -> None:
        FakeGraph.capturing = None

    def replay(self) -> None:
        for step in self.steps:
            step()


class Watched:
    """A watched process whose kernels store one element each."""

    def __init__(self, folder: Path) -> None:
        chooser, self.folder, self.memory = ConfigChooser(), folder, RedzoneMemory("cpu")
        launches = WatchedLaunches(DEVICE.sm, lambda: chooser.chosen, self.memory)
        plan = WatchPlan(device=DEVICE, oracles=PER_LAUNCH, scratch="/scratch")
        self._recorder = LaunchRecorder(plan, RecordFiles(folder))
        self.watch = HardwareWatch(launches, self.memory, self._recorder, CallingLines(()), DEVICE, None)
        self.watch.graphs.follow()

    def tensor(self, size: int = 5) -> torch.Tensor:
        return self.memory.to_gpu(torch.ones(size))

    def launch(self, name: str, x: torch.Tensor, y: torch.Tensor, element: int = 0) -> None:
        """Launch a kernel that stores to this element of y."""
        address, size = y.data_ptr() + element * y.element_size(), y.element_size()
        graph = FakeGraph.capturing

        def store() -> None:
            ctypes.memset(address, 0, size)

        request = LaunchRequest(
            ttir=TTIR.replace("NAME", name),
            grid=(1, 1, 1),
            stream=0,
            source=SimpleNamespace(
                fn=SimpleNamespace(__name__=name, arg_names=["x", "y"]),
                signature={"x": "*fp32", "y": "*fp32"},
                constants={},
                attrs={},
            ),
            metadata=SimpleNamespace(num_warps=4, num_stages=1),
            arguments=[x, y],
        )
        self.watch(request, store if graph is None else lambda: graph.steps.append(store))

    @property
    def failures(self) -> tuple[LaunchFailure, ...]:
        return read_failures(self.folder)

    @property
    def checks(self) -> TestChecks:
        self._recorder.write()
        (checks,) = read_checks(self.folder)
        return checks


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    patches = Patches()
    monkeypatch.setattr(captured_launches, "PATCHES", patches)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: FakeGraph.capturing is not None)
    yield Watched(tmp_path)
    FakeGraph.capturing = None
    patches.undo()


def made_graph() -> Any:
    return torch.cuda.CUDAGraph()


def test_launches_of_a_graph_are_checked_at_each_replay(watched: Watched) -> None:
    x, y, graph = watched.tensor(), watched.tensor(), made_graph()
    graph.capture_begin()
    watched.launch("first", x, y)
    watched.launch("second", y, x)
    graph.capture_end()
    for _ in range(3):
        graph.replay()
    checks = watched.checks
    assert (checks.launches, checks.unchecked, checks.kernels) == (6, {}, ("first", "second"))
    assert watched.failures == ()


def test_damage_by_a_replay_names_kernel_and_both_lines(watched: Watched) -> None:
    x, y, graph = watched.tensor(), watched.tensor(), made_graph()
    graph.capture_begin()
    watched.launch("good", y, x)
    watched.launch("bad", x, y, element=5)
    graph.capture_end()
    assert watched.failures == ()
    graph.replay()
    (failure,) = watched.failures
    assert failure.fail.message == "bad stores 1 element outside the storage of y, the first at element 5"
    assert failure.launch is not None
    assert failure.launch.kernel == "bad"
    assert failure.captured_at is not None
    assert failure.called_from is not None
    assert failure.called_from.line > failure.captured_at.line + 2


def test_damage_that_several_kernels_may_have_done_names_them(watched: Watched) -> None:
    x, y, graph = watched.tensor(), watched.tensor(), made_graph()
    graph.capture_begin()
    watched.launch("one", x, y)
    watched.launch("other", x, y, element=7)
    graph.capture_end()
    graph.replay()
    (failure,) = watched.failures
    assert failure.fail.message == "one or other stores 1 element outside the storage of y, the first at element 7"


def test_a_graph_keeps_no_argument_alive(watched: Watched) -> None:
    x, y, graph = watched.tensor(), watched.tensor(), made_graph()
    graph.capture_begin()
    watched.launch("kernel", x, y)
    graph.capture_end()
    argument = weakref.ref(x)
    del x
    assert argument() is None


def test_a_launch_beside_a_capture_is_counted_as_unchecked(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, graph = watched.tensor(), watched.tensor(), made_graph()
    graph.capture_begin()
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    watched.launch("beside", x, y)
    graph.capture_end()
    assert sum(watched.checks.unchecked.values()) == 1
    assert BESIDE in next(iter(watched.checks.unchecked))


def test_a_capture_that_torch_did_not_begin_is_counted_as_unchecked(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    watched.launch("kernel", watched.tensor(), watched.tensor())
    assert CAPTURED in next(iter(watched.checks.unchecked))
