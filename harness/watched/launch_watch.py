"""Checks each launch of this process by the oracles that need no reference, and records what they say.

A launch is judged by itself, as a case of one launch.  If it left lanes undefined, it is executed once more with other
values there; its arguments are copied before, and get the results of the first execution back.
"""

import atexit
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from math import prod
from pathlib import Path

import torch

from harness.devices.cpu_tensors import CpuTensors
from harness.errors import CannotExecute
from harness.model.case import Case, DType, LaneFill, Scale
from harness.model.device import DeviceProfile
from harness.model.ending import Completed, Ending, OutOfMemory, Raised, Unsupported
from harness.model.run import Measure, Refilled, Result, Role, Run, Source, UndefinedLanes, UninitialisedRead
from harness.model.verdict import Abstain, Fail, Outcome, Signature, Verdict
from harness.ops.call_contexts import CallContexts
from harness.ops.case_execution import plain_torch, without_dispatch_modes
from harness.ops.compare import digests
from harness.ops.exception_text import text_of
from harness.ops.inputs import TORCH_DTYPES
from harness.ops.poison import FreshMemory
from harness.oracles import registry
from harness.settings import Settings
from harness.virtual.driver.driver import LaunchRequest, tensors_of
from harness.virtual.engine import VirtualEngine
from harness.virtual.launches import Launches, VirtualCaseLaunches
from harness.watched.call_sites import CallSites
from harness.watched.launch_memory import bounded_memory
from harness.watched.program_threads import (
    CallingLines,
    MainThread,
    emulate_on_every_thread,
    run_backward_on_its_own_thread,
)
from harness.watched.recorded_launch import record_launch
from harness.watched.watch_records import CannotRecord, LaunchFailure, RecordFiles, TestChecks, WatchPlan

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
RECORD_INTERVAL_S = 1.0
WORTH_RECORDING = 2
"""A launch that shows a recorded failure again is recorded if it has this many times fewer programs."""
LOOKED_UP_LAUNCHES = 64
"""The first launches of a test: the calls that led to them are looked up."""
RECORDED_CALLS = 8
"""Different calls of a test that are recorded."""
NO_MEASURE = Measure(ratio=0.0, index=(), got=0.0, expected=0.0)
DTYPES = {dtype: one for one, dtype in TORCH_DTYPES.items() if one.is_float}
TEST_VARIABLE = "PYTEST_CURRENT_TEST"
Copies = Mapping[int, torch.UntypedStorage]
"""Copies of storages, by the address of the original."""


def watch_process(plan: WatchPlan, folder: Path | None) -> "LaunchRecorder":
    """Make this process the GPU of the plan, for good, and check every launch from here on.

    The records go to the folder; without one, to nowhere until the recorder gets one.
    """
    recorder = LaunchRecorder(RecordFiles(folder) if folder else None, CallSites(plan.libraries))
    oracles = tuple(map(registry.find, plan.oracles))
    fresh = FreshMemory(MOST_FRESH_BYTES)
    lines = CallingLines(plan.libraries)

    def judge(run: Run) -> tuple[Verdict, ...]:
        return registry.judge_all(run, {}, {}, (), oracles)

    def around(launches: Launches) -> LaunchWatch:
        return LaunchWatch(launches, recorder, judge, fresh, lines)

    def enter_modes() -> None:
        CpuTensors().__enter__()
        fresh.__enter__()

    engine = VirtualEngine(around, fresh=fresh)
    engine.prepare()
    engine.emulate(plan.device)
    fresh.__enter__()
    run_backward_on_its_own_thread(lines, CallContexts())
    emulate_on_every_thread(enter_modes)
    atexit.register(recorder.write)
    os.register_at_fork(after_in_child=recorder.begin_in_child)
    return recorder


class LaunchRecorder:
    """Writes what this process sees, test by test.  Failures are written at once, counts about once a second."""

    def __init__(self, files: RecordFiles | None, sites: CallSites) -> None:
        self._sites = sites
        self._lock = threading.RLock()
        self.record_to(files)

    def record_to(self, files: RecordFiles | None) -> None:
        """Write to these files from now on, as if nothing had been seen before; None to write nothing."""
        self._files = files
        self.test = ""
        self._called_test, self._looked_up = "", 0
        self._calls: set[str] = set()
        self._recorded: dict[Signature, int] = {}
        """The number of programs of the launch that was recorded last, by what it showed."""
        self._forget()

    def begin_in_child(self) -> None:
        """Start anew in a forked child, which the parent's counts do not concern."""
        self._lock = threading.RLock()
        self._forget()
        if "multiprocessing.util" in sys.modules:  # its children leave without `atexit`
            sys.modules["multiprocessing.util"].Finalize(None, self.write, exitpriority=0)

    def add(self, test: str, run: Run, verdicts: tuple[Verdict, ...], details: "LaunchDetails") -> None:
        """Count one launch of a test, and record what it shows for the first time."""
        with self._lock:
            if self._files is None:
                return
            if test != self.test:
                self.write()
                self._forget()
                self.test = test
            self._launches += 1
            self._kernels |= {launch.kernel for launch in run.launches}
            fails = [verdict for verdict in verdicts if isinstance(verdict, Fail)]
            self._judged.update({verdict.oracle for verdict in verdicts if not isinstance(verdict, Abstain)})
            self._failed.update({fail.oracle for fail in fails})
            if registry.outcome(run, verdicts) is Outcome.ABSTAIN:
                self._unchecked.update(registry.reasons(verdicts)[:1])
            for fail in fails:
                if fail.signature not in self._seen:
                    self._seen.add(fail.signature)
                    self._add_failure(test, fail, run, details)
            if time.monotonic() - self._written_at > RECORD_INTERVAL_S:
                self.write()

    def add_call(self, test: str, request: LaunchRequest) -> None:
        """Record the call that leads to a launch, if it is among the first of its test."""
        with self._lock:
            if self._files is None:
                return
            if test != self._called_test:
                self._called_test, self._looked_up, self._calls = test, 0, set()
            if self._looked_up >= LOOKED_UP_LAUNCHES or len(self._calls) >= RECORDED_CALLS:
                return
            self._looked_up += 1
            call = self._sites.find(test, request)
            known = repr(call and replace(call, kernel=""))
            if call is not None and known not in self._calls:
                self._calls.add(known)
                self._files.add(call)

    def _add_failure(self, test: str, fail: Fail, run: Run, details: "LaunchDetails") -> None:
        assert self._files is not None, "nothing is recorded"
        launch = run.launches[0] if run.launches else None
        programs = prod(launch.grid) if launch else 0
        recording = ""
        if programs * WORTH_RECORDING <= self._recorded.get(fail.signature, sys.maxsize):
            recording = self._files.record(details.save)
            self._recorded[fail.signature] = programs
        self._files.add(
            LaunchFailure(
                test=test,
                fail=fail,
                dtype=run.case.dtype,
                launch=launch,
                called_from=details.called_from(),
                recording=recording,
            )
        )

    def write(self) -> None:
        """Write the counts of the test so far."""
        with self._lock:
            self._written_at = time.monotonic()
            if self._launches and self._files is not None:
                self._files.add(
                    TestChecks(
                        test=self.test,
                        launches=self._launches,
                        judged=dict(self._judged),
                        failed=dict(self._failed),
                        unchecked=dict(self._unchecked),
                        kernels=tuple(sorted(self._kernels)),
                    )
                )

    def _forget(self) -> None:
        self._launches, self._written_at = 0, 0.0
        self._judged, self._failed, self._unchecked = Counter[str](), Counter[str](), Counter[str]()
        self._kernels: set[str] = set()
        self._seen: set[Signature] = set()


@dataclass(frozen=True, slots=True)
class LaunchDetails:
    """What is read of a launch only if it shows a failure."""

    called_from: Callable[[], Source | None]
    save: Callable[[Path], None]
    """Writes a file that repeats the launch.  It may raise `CannotRecord`."""


class LaunchWatch:
    """The handler of all launches of this process."""

    def __init__(
        self,
        launches: Launches,
        recorder: LaunchRecorder,
        judge: Callable[[Run], tuple[Verdict, ...]],
        fresh: FreshMemory,
        lines: CallingLines,
    ) -> None:
        self._launches = launches
        self._recorder = recorder
        self._judge = judge
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
            size_bytes = _size_bytes(request)
            before = _copies(request) if size_bytes <= MOST_COPIED_BYTES else None
            ending: Ending = Completed()
            self._begin(LaneFill.ZERO, Scale.LONG if size_bytes > NATIVE_BYTES else Scale.USUAL)
            facts = self._launches.case_launches
            try:
                with bounded_memory(self._memory_share):
                    self._launches(request)
            except MemoryError as error:
                ending = OutOfMemory(limit_bytes=0, message=str(error) or type(error).__name__)
                raise
            except CannotExecute as error:
                ending = facts.halted or Unsupported(what=error.what, kernel="", source=None, triton_version="")
                raise
            except Exception as error:
                ending = facts.halted or self._raised(error)
                raise
            finally:
                run = self._run(request, facts, ending, before)
                self._recorder.add(test, run, self._judge(run), self._details(request, before))
                self._fresh_before = self._fresh.count

    def _details(self, request: LaunchRequest, before: Copies | None) -> LaunchDetails:
        def save(path: Path) -> None:
            if before is None:
                raise CannotRecord("its arguments are too large")
            record_launch(request, before, self._fresh, path)

        return LaunchDetails(self._lines.find, save)

    def _raised(self, error: Exception) -> Raised:
        kind = type(error).__name__
        return Raised(kind=kind, message=text_of(error), source=self._lines.find(), phase="launch", traceback="")

    def _begin(self, fill: LaneFill, scale: Scale) -> None:
        begun = self._launches.case_launches = VirtualCaseLaunches(lane_fill=fill, scale=scale, traced=self._traced)
        begun.checks_threads = fill is LaneFill.ZERO
        begun.main_has_allocator = MainThread.sees_allocator()

    def _run(self, request: LaunchRequest, facts: VirtualCaseLaunches, ending: Ending, before: Copies | None) -> Run:
        run = Run(
            case=_case(request, self._device),
            engine=VirtualEngine.name,
            ending=ending,
            launches=tuple(facts.launches),
            memory=tuple(facts.memory),
        )
        if not isinstance(ending, Completed):
            return run
        needs_refill = any(isinstance(event, UndefinedLanes) for event in facts.memory)
        if not needs_refill and not any(isinstance(event, UninitialisedRead) for event in facts.memory):
            return run
        results = _results(request)
        refilled = self._refilled(request, before) if needs_refill and before is not None else None
        return replace(run, results=results, refilled=refilled)

    def _refilled(self, request: LaunchRequest, before: Copies) -> Refilled:
        """Execute the launch again with other values in undefined lanes, and put its first results back."""
        after = _copies(request)
        first = self._launches.case_launches
        ending: Ending = Completed()
        try:
            _restore(request, before)
            self._begin(LaneFill.ODD, first.scale)
            with bounded_memory(self._memory_share), redirect_stdout(StringIO()):  # the kernel has printed once
                self._launches(request)
            found = _digests(request)
        except MemoryError as error:
            ending, found = OutOfMemory(limit_bytes=0, message=str(error)), {}
        except CannotExecute as error:
            ending, found = Unsupported(what=error.what, kernel="", source=None, triton_version=""), {}
        finally:
            _restore(request, after)
            self._launches.case_launches = first
        return Refilled(ending=ending, digests=found)


def current_test() -> str:
    """Return the test that runs, as pytest names it; outside pytest the script."""
    test = os.environ.get(TEST_VARIABLE, "")
    if test:
        return test.rpartition(" (")[0] or test
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None) or (sys.argv[0] if sys.argv else "")
    return os.path.relpath(file) if file else "python"


def _case(request: LaunchRequest, device: DeviceProfile) -> Case:
    types = (DTYPES.get(tensor.dtype) for tensor in tensors_of(request).values())
    return Case(op="", dims={}, dtype=next(filter(None, types), DType.FP32), device=device)


def _storages(request: LaunchRequest) -> dict[int, torch.UntypedStorage]:
    """Return the storages of the arguments by address, each once."""
    storages = (tensor.untyped_storage() for tensor in tensors_of(request).values())
    return {storage.data_ptr(): storage for storage in storages if storage.nbytes()}


def _size_bytes(request: LaunchRequest) -> int:
    with plain_torch(), without_dispatch_modes():
        return sum(storage.nbytes() for storage in _storages(request).values())


def _copies(request: LaunchRequest) -> Copies:
    """Return copies of the arguments' memory."""
    with plain_torch(), without_dispatch_modes():
        return {address: storage.clone() for address, storage in _storages(request).items()}


def _restore(request: LaunchRequest, copies: Copies) -> None:
    with plain_torch(), without_dispatch_modes():
        for address, storage in _storages(request).items():
            storage.copy_(copies[address])


def _digests(request: LaunchRequest) -> dict[str, str]:
    with plain_torch(), without_dispatch_modes():
        return digests({name: tensor.detach() for name, tensor in tensors_of(request).items()})


def _nonfinite(tensor: torch.Tensor) -> int:
    if not tensor.is_floating_point():
        return 0
    values = tensor.detach()
    return int((~torch.isfinite(values.float() if values.itemsize == 1 else values)).sum())  # not for float8


def _results(request: LaunchRequest) -> tuple[Result, ...]:
    """Return the arguments as results that nothing is known about but their bits."""
    kernel, found = request.source.fn.__name__, _digests(request)
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
                nonfinite=_nonfinite(tensor),
                digest=found[name],
                writer=(kernel, name),
            )
            for name, tensor in tensors_of(request).items()
        )
