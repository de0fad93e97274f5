"""Checks each launch of this process by the oracles that need no reference, and records what they say.

A launch is judged by itself, as a case of one launch.  If it left lanes undefined, it is executed once more with other
values there; its arguments are copied before, and get the results of the first execution back.
"""

import os
import sys
import threading
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from pathlib import Path

import torch

from harness.engines.torch.captured_graphs import GraphCapture, watch_captures
from harness.engines.torch.cpu_tensors import CpuTensors
from harness.engines.torch.inductor.followed_programs import FollowedPrograms
from harness.engines.torch.torch_seam import plain_torch, without_dispatch_modes
from harness.engines.triton.driver import LaunchRequest, tensors_of
from harness.engines.virtual.engine import VirtualEngine
from harness.engines.virtual.launches import Launches, VirtualCaseLaunches
from harness.errors import CannotExecute
from harness.execution.call_contexts import CallContexts
from harness.execution.compare import digests
from harness.execution.followed_memory import FollowedMemory
from harness.execution.poison import SAME_SIZE, FreshMemory
from harness.execution.reruns import Rerun, RerunRequest, recording, with_reruns
from harness.model.case import Case, DType, LaneFill, Scale
from harness.model.device import DeviceProfile
from harness.model.ending import Completed, Ending, OutOfMemory, Source, Unsupported
from harness.model.engine_traits import VIRTUAL
from harness.model.later_calls import GraphReplay
from harness.model.run import (
    Launch,
    Measure,
    Refilled,
    Result,
    Role,
    Run,
    UndefinedLanes,
    UninitialisedRead,
    UnwrittenUse,
)
from harness.settings import Settings
from harness.watched.launch_memory import Copies, bounded_memory, copies_of, restore, size_bytes
from harness.watched.launch_recorder import DTYPES, LaunchDetails, LaunchRecorder, current_test, launch_case
from harness.watched.program_threads import (
    CallingLines,
    MainThread,
    emulate_on_every_thread,
    run_backward_on_its_own_thread,
)
from harness.watched.quiet_scripts import TorchWaits
from harness.watched.recorded_launch import record_launch
from harness.watched.watch_records import CannotRecord, RecordFiles, WatchPlan

MOST_COPIED_BYTES = 256 * 2**20
"""Arguments of a launch beyond which it is not executed again."""
MOST_FRESH_BYTES = 1024 * 2**20
"""Memory of `torch.empty` that is kept for the sake of its poison."""
NATIVE_BYTES = 4 * 2**20
"""Arguments of a launch beyond which native code runs it from the first time on: NumPy would take many bytes each."""
MEMORY_SHARE = 0.8
"""The share of the machine's free memory that one launch may take.  Beyond it, the launch raises MemoryError."""
LEAST_MEMORY_SHARE = 0.25
"""The share beside other workers of pytest-xdist.  Seldom do several of them run their largest launch at once."""
NO_MEASURE = Measure(ratio=0.0, index=(), got=0.0, expected=0.0)


def watch_process(plan: WatchPlan, folder: Path | None) -> LaunchRecorder:
    """Make this process the GPU of the plan, for good, and check every launch from here on.

    The records go to the folder; without one, to nowhere until the recorder gets one.
    """
    recorder = LaunchRecorder(plan, RecordFiles(folder) if folder else None)
    fresh = FollowedMemory(MOST_FRESH_BYTES)
    engine_type = _engine_named(plan.engine)
    lines = CallingLines((*plan.libraries, plan.scratch))  # where Inductor writes what it generates

    def around(launches: Launches) -> LaunchWatch:
        return LaunchWatch(launches, recorder, fresh, lines, engine_type)

    def enter_modes() -> None:
        CpuTensors().__enter__()
        fresh.__enter__()

    def record_use(use: UnwrittenUse, launch: Launch | None) -> None:
        recorder.add_use(
            current_test(), _run_of_use(use, launch, plan.device), LaunchDetails(lines.find, _save_nothing)
        )

    fresh.on_use = record_use
    watch_captures(ReplayWatch(recorder, lines, plan.device))
    engine = engine_type(around, fresh=fresh)
    engine.prepare()
    engine.emulate(plan.device)
    fresh.__enter__()
    programs = FollowedPrograms((CpuTensors, FreshMemory), recorder.add_uncompiled)
    programs.follow()
    programs.prepare_script(sys.modules["__main__"])
    run_backward_on_its_own_thread(lines, CallContexts())
    emulate_on_every_thread(enter_modes)
    recorder.write_at_exit()
    if folder:
        TorchWaits(lines.find).start()
    return recorder


def _engine_named(name: str) -> type[VirtualEngine]:
    """Return what executes the launches of a command."""
    if name == VIRTUAL.name:
        return VirtualEngine
    from harness.engines.ptx.engine import PtxEngine  # noqa: PLC0415 - few commands run on it, and it loads much

    return PtxEngine


@dataclass(frozen=True, slots=True)
class ReplayWatch:
    """Judges each replay of a CUDA graph: by what the program has freed of the memory that the graph uses."""

    recorder: LaunchRecorder
    lines: CallingLines
    device: DeviceProfile

    def capture_line(self) -> Source | None:
        return self.lines.find()

    def before_replay(self, capture: GraphCapture) -> None:
        freed = capture.outside.freed("")
        replayed = GraphReplay(ending=Completed(), freed=freed)
        case = Case(op="", dims={}, dtype=DType.FP32, device=self.device)
        run = Run(case=case, engine=VirtualEngine.traits.name, ending=Completed(), replayed=replayed)
        lines = tuple(memory.captured_at for memory in freed[:1])
        self.recorder.add_replay(current_test(), run, LaunchDetails(self.lines.find, _save_nothing, lines))


class LaunchWatch:
    """The handler of all launches of this process."""

    def __init__(
        self,
        launches: Launches,
        recorder: LaunchRecorder,
        fresh: FollowedMemory,
        lines: CallingLines,
        engine: type[VirtualEngine],
    ) -> None:
        self._launches = launches
        self._engine = engine
        self._recorder = recorder
        self._fresh = fresh
        self._lines = lines
        self._fresh_before = 0
        """The number of fresh storages after the launch before."""
        self._device = launches.device
        workers = Settings.from_environment(os.environ).pytest_workers
        self._memory_share = max(MEMORY_SHARE / workers, LEAST_MEMORY_SHARE)
        self._traced: dict[str, int] = {}
        """Launches whose threads were checked, by build: a few in this process, not in each test."""
        self._lock = threading.RLock()

    def __call__(self, request: LaunchRequest) -> None:
        """Execute a launch and judge it.

        Raises:
            HarnessError: as `Launches`; the launch is recorded before.
        """
        test = current_test()
        with self._lock:
            if test != self._recorder.test:  # the test made tensors before its first launch
                self._fresh.forget(self._fresh_before)
            self._recorder.add_call(test, request)
            self._checked(test, request)

    def _checked(self, test: str, request: LaunchRequest) -> None:
        taken_bytes = size_bytes(request)
        before = copies_of(request) if taken_bytes <= MOST_COPIED_BYTES else None
        ending: Ending = Completed()
        facts = self._facts(LaneFill.ZERO, Scale.LONG if taken_bytes > NATIVE_BYTES else Scale.USUAL)
        try:
            with recording(self._launches, facts), bounded_memory(self._memory_share):
                self._launches(request)
        except MemoryError as error:
            ending = OutOfMemory(limit_bytes=0, message=str(error) or type(error).__name__)
            raise
        except CannotExecute as error:
            ending = facts.halted or Unsupported(what=error.what, kernel="", source=None, triton_version="")
            raise
        except Exception as error:
            ending = facts.halted or self._lines.raised(error)
            raise
        finally:
            run = self._run(request, facts, ending, before)
            self._recorder.add(test, run, self._details(request, before))
            self._fresh_before = self._fresh.count

    def _details(self, request: LaunchRequest, before: Copies | None) -> LaunchDetails:
        def save(path: Path) -> None:
            if before is None:
                raise CannotRecord("its arguments are too large")
            record_launch(request, before, self._fresh, path)

        return LaunchDetails(self._lines.find, save, (request.captured_at,) * bool(request.captured_at))

    def _facts(self, fill: LaneFill, scale: Scale) -> VirtualCaseLaunches:
        return VirtualCaseLaunches(
            lane_fill=fill,
            scale=scale,
            traced=self._traced,
            checks_threads=fill is LaneFill.ZERO,
            main_has_allocator=MainThread.sees_allocator(),
        )

    def _run(self, request: LaunchRequest, facts: VirtualCaseLaunches, ending: Ending, before: Copies | None) -> Run:
        run = Run(
            case=launch_case(request, self._device),
            engine=self._engine.traits.name,
            ending=ending,
            launches=tuple(facts.launches),
            memory=tuple(facts.memory),
        )
        if not isinstance(ending, Completed):
            return run
        if any(isinstance(event, UndefinedLanes | UninitialisedRead) for event in facts.memory):
            run = replace(run, results=_results(request, before))
        if before is None:
            return run
        refill = partial(self._refill, request, before, facts.scale)
        return with_reruns(run, None, self._engine.reruns & {Rerun.LANE_FILL}, refill)

    def _refill(self, request: LaunchRequest, before: Copies, scale: Scale, rerun: RerunRequest) -> Run:
        """Execute the launch again with other values in undefined lanes, and put its first results back."""
        after = copies_of(request)
        again = recording(self._launches, self._facts(LaneFill.ODD, scale))
        try:
            restore(request, before)
            with again, bounded_memory(self._memory_share), redirect_stdout(StringIO()):  # the kernel has printed once
                self._launches(request)
            refilled = Refilled(ending=Completed(), digests=_digests(request))
        except MemoryError as error:
            refilled = Refilled(ending=OutOfMemory(limit_bytes=0, message=str(error)), digests={})
        except CannotExecute as error:
            unsupported = Unsupported(what=error.what, kernel="", source=None, triton_version="")
            refilled = Refilled(ending=unsupported, digests={})
        finally:
            restore(request, after)
        return replace(rerun.first, refilled=refilled)


def _run_of_use(use: UnwrittenUse, launch: Launch | None, device: DeviceProfile) -> Run:
    """Return the run of a launch, or of none, whose memory torch uses before it is written."""
    return Run(
        case=Case(op="", dims={}, dtype=DTYPES.get(getattr(torch, use.dtype), DType.FP32), device=device),
        engine=VirtualEngine.traits.name,
        ending=Completed(),
        launches=(launch,) if launch else (),
        memory=(replace(use, site=replace(use.site, launch=0)),),
    )


def _save_nothing(path: Path) -> None:
    raise CannotRecord(f"{path}: a launch alone does not use what it leaves")


def _digests(request: LaunchRequest) -> dict[str, str]:
    with plain_torch(), without_dispatch_modes():
        return digests({name: tensor.detach() for name, tensor in tensors_of(request).items()})


def _nonfinite(tensor: torch.Tensor, before: Copies | None) -> int:
    """Return how many elements are NaN or infinite, without those that were the same before the launch."""
    if not tensor.is_floating_point():
        return 0
    values = tensor.detach()
    broken = ~torch.isfinite(values.float() if values.itemsize == 1 else values)  # not for float8
    old = None if before is None else before.get(tensor.untyped_storage().data_ptr())
    if old is not None and broken.any():
        copy = torch.empty(0, dtype=values.dtype).set_(old, values.storage_offset(), values.size(), values.stride())
        bits = SAME_SIZE[values.itemsize]
        broken &= values.view(bits) != copy.view(bits)
    return int(broken.sum())


def _results(request: LaunchRequest, before: Copies | None) -> tuple[Result, ...]:
    """Return the arguments as results that nothing is known about but their bits."""
    kernel, by_name = request.source.fn.__name__, _digests(request)
    with plain_torch(), without_dispatch_modes():
        return tuple(
            Result(
                name=name,
                role=Role.OUTPUT,
                shape=tuple(tensor.shape),
                whole=NO_MEASURE,
                worst_tile=NO_MEASURE,
                unwritten=0,
                first_unwritten=None,
                nonfinite=_nonfinite(tensor, before),
                digest=by_name[name],
                writer=(kernel, name),
            )
            for name, tensor in tensors_of(request).items()
        )
