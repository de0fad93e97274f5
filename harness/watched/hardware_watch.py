"""Checks each launch of this process on the hardware GPU, and records what the oracles say.

The GPU is synchronised around each launch.  So a fault, an overwritten redzone and a report of compute-sanitizer belong
to the launch that caused them.  A launch that is captured into a CUDA graph does not run: the GPU is synchronised
around each replay, and the launches of the graph are checked together.
"""

import atexit
import os
import threading
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch

from harness.engines.cuda.captured_launches import CapturedGraph, HardwareGraphs
from harness.engines.cuda.cuda_errors import as_fault
from harness.engines.cuda.emulated_limits import SharedMemoryCheck
from harness.engines.cuda.emulation import emulated_profile, gpu_of_worker
from harness.engines.cuda.engine import CudaEngine, emulate_torch_cuda
from harness.engines.cuda.gpus.inventory import profile_of
from harness.engines.cuda.launches import CudaCaseLaunches, WatchedLaunches
from harness.engines.cuda.memory.redzones import RedzoneMemory
from harness.engines.cuda.sanitizers.sanitized_memory import memory_for
from harness.engines.triton import triton_seam
from harness.engines.triton.driver import LaunchRequest
from harness.engines.triton.hardware_driver import RealDriver
from harness.execution.reruns import recording
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.ending import Completed, Ending, Faulted, Source, Unsupported
from harness.model.run import Run
from harness.watched.launch_memory import host_copies, size_bytes
from harness.watched.launch_recorder import LaunchDetails, LaunchRecorder, current_test, launch_case
from harness.watched.program_threads import CallingLines, MainThread, note_lines_of_backward
from harness.watched.recorded_launch import record_launch
from harness.watched.sanitizer_reports import SanitizerReports
from harness.watched.watch_records import CannotRecord, RecordFiles, WatchPlan

MOST_COPIED_BYTES = 16 * 2**20
"""Arguments of a launch beyond which they are not copied to the host before it, so that it cannot be recorded."""
MOST_GUARDED_BYTES = 256 * 2**20
"""Memory between redzones within one test.  Beyond it, the tensors so far are no longer followed."""
CAPTURED = "a check of a launch that is captured into a CUDA graph, but not by torch.cuda.CUDAGraph"
BESIDE = "a check of a launch that runs while a CUDA graph is captured on another stream"
LOST = "a check after a fault, which lost the CUDA context of the process"


def watch_hardware(plan: WatchPlan, folder: Path) -> LaunchRecorder:
    """Check every launch of this process on the GPU that the environment names, from here on.

    Host code sees the figures of the plan's device, if that is another one.
    """
    gpu = gpu_of_worker(os.environ)
    recorder = LaunchRecorder(plan, RecordFiles(folder))
    lines = CallingLines((*plan.libraries, plan.scratch))  # where Inductor writes what it generates
    memory, chooser = memory_for(None, os.environ), triton_seam.ConfigChooser()
    launches = WatchedLaunches(gpu.arch, lambda: chooser.chosen, memory)
    reports = SanitizerReports(plan.sanitizer, Path(plan.accepts)) if plan.sanitizer else None

    emulated = emulated_profile(plan.device, gpu)
    if plan.device != profile_of(gpu):
        emulate_torch_cuda(emulated)
        SharedMemoryCheck(emulated, gpu, None).install()
    watch = HardwareWatch(launches, memory, recorder, lines, plan.device, reports)
    watch.graphs.follow()
    triton_seam.set_driver(RealDriver(emulated, gpu.arch, watch))
    chooser.install()
    triton_seam.watch_allocations(launches.allocate)
    memory.install()
    guard = memory.guarding()
    guard.__enter__()
    atexit.register(guard.__exit__, None, None, None)
    note_lines_of_backward(lines)
    recorder.write_at_exit()
    return recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class _Capture:
    """A captured launch of a watched program."""

    case: Case
    line: Source | None
    """The caller's line that led to it."""


class HardwareWatch:
    """The callback of all launches of this process."""

    def __init__(  # noqa: PLR0913, PLR0917 - made in one place
        self,
        launches: WatchedLaunches,
        memory: RedzoneMemory,
        recorder: LaunchRecorder,
        lines: CallingLines,
        device: DeviceProfile,
        reports: SanitizerReports | None,
    ) -> None:
        self._launches = launches
        self._memory = memory
        self._recorder = recorder
        self._lines = lines
        self._device = device
        self._reports = reports
        self._guarded_before = 0
        """The number of tensors between redzones after the launch before."""
        self._is_lost = False
        self._lock = threading.RLock()  # autograd's threads launch too
        self.graphs = HardwareGraphs(memory, self.replay)
        self._captures: WeakKeyDictionary[CapturedGraph, list[_Capture]] = WeakKeyDictionary()
        """For each launch of a graph, what only a watched program needs."""

    def __call__(self, request: LaunchRequest, launch: Callable[[], None]) -> None:
        """Launch, wait for the end, and judge."""
        test = current_test()
        with self._lock:
            if test != self._recorder.test:  # the test made tensors before its first launch
                self._memory.forget_first(self._guarded_before)
            # A lost context answers no question.
            graph, is_capturing = self.graphs.current, not self._is_lost and torch.cuda.is_current_stream_capturing()
            if graph is not None and is_capturing:
                self._captured(test, request, graph, launch)
            elif self._is_lost or graph is not None or is_capturing:
                what = LOST if self._is_lost else CAPTURED if is_capturing else BESIDE
                self._add_unchecked(test, launch_case(request, self._device), what)
                launch()
            else:
                self._recorder.add_call(test, request)
                self._checked(test, request, launch)

    def replay(self, graph: CapturedGraph, replay: Callable[[], None]) -> None:
        """Replay a graph, wait for the end, and judge its launches."""
        test = current_test()
        with self._lock:
            if test != self._recorder.test:
                self._memory.forget_first(self._guarded_before)
            captures = self._captures[graph]
            if self._is_lost or self.graphs.current is not None:
                for capture in captures:
                    self._add_unchecked(test, capture.case, LOST if self._is_lost else BESIDE)
                replay()
                return
            details = LaunchDetails(self._lines.find, _no_recording, [capture.line for capture in captures])
            with self._judging(test, captures[0].case, graph.kernels, lambda _: details):
                self._launches.replay(graph, replay)

    def _captured(self, test: str, request: LaunchRequest, graph: CapturedGraph, launch: Callable[[], None]) -> None:
        """Launch into a graph.  A launch that raises is recorded, since no replay makes it."""
        case = launch_case(request, self._device)
        try:
            self._launches.capture(graph, request, launch)
        except Exception as error:
            ending = as_fault(self._lines.raised(error), request.source.fn.__name__)
            run = Run(case=case, engine=CudaEngine.traits.name, ending=ending)
            self._recorder.add(test, run, LaunchDetails(self._lines.find, _no_recording))
            raise
        self._captures.setdefault(graph, []).append(_Capture(case=case, line=self._lines.find()))

    def _add_unchecked(self, test: str, case: Case, what: str) -> None:
        ending = Unsupported(what=what, kernel="", source=None, triton_version="")
        run = Run(case=case, engine=CudaEngine.traits.name, ending=ending)
        self._recorder.add(test, run, LaunchDetails(self._lines.find, _no_recording))

    def _checked(self, test: str, request: LaunchRequest, launch: Callable[[], None]) -> None:
        before: list[Mapping[int, Any]] = []
        """The copies, if they are made."""
        kernels, case = (request.source.fn.__name__,), launch_case(request, self._device)
        with self._judging(test, case, kernels, lambda run: self._details(request, next(iter(before), None), run)):
            if size_bytes(request) <= MOST_COPIED_BYTES:
                before.append(host_copies(request))
            self._launches(request, launch)

    @contextmanager
    def _judging(
        self, test: str, case: Case, kernels: Collection[str], details: Callable[[Run], LaunchDetails]
    ) -> Generator[None]:
        """Record what the launches in this context show."""
        facts = CudaCaseLaunches(finds_writer=True, main_has_allocator=MainThread.sees_allocator())
        ending: Ending = Completed()
        try:
            with recording(self._launches, facts):
                yield
        except Exception as error:
            ending = as_fault(self._lines.raised(error), facts.unfinished)
            raise
        finally:
            run = self._run(case, kernels, facts, ending)
            self._recorder.add(test, run, details(run))
            self._is_lost = isinstance(ending, Faulted)
            if facts.memory or self._memory.guarded_bytes > MOST_GUARDED_BYTES:
                self._memory.forget()  # a damaged redzone stays damaged
            self._guarded_before = self._memory.count

    def _run(self, case: Case, kernels: Collection[str], facts: CudaCaseLaunches, ending: Ending) -> Run:
        is_patient = not isinstance(ending, Completed)
        return Run(
            case=case,
            engine=CudaEngine.traits.name,
            ending=ending,
            launches=tuple(facts.launches),
            memory=(*facts.memory, *facts.scratch, *facts.foreign),
            sanitizer=self._reports and self._reports.of_launch(*kernels, is_patient=is_patient),
        )

    def _details(self, request: LaunchRequest, before: Mapping[int, Any] | None, run: Run) -> LaunchDetails:
        is_of_other = isinstance(run.ending, Faulted) and run.ending.launch is None

        def save(path: Path) -> None:
            if before is None:
                raise CannotRecord("its arguments are too large")
            if is_of_other:
                raise CannotRecord("an earlier kernel is at fault")
            record_launch(request, before, None, path)

        return LaunchDetails(self._lines.find, save)


def _no_recording(path: Path) -> None:
    raise CannotRecord(f"{path.name}: the launch was not followed")
