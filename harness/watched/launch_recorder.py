"""Records what the launches of one process show, test by test."""

import atexit
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from harness.engines.triton.driver import LaunchRequest, tensors_of
from harness.execution.inputs import TORCH_DTYPES
from harness.model.case import Case, DType
from harness.model.device import DeviceProfile
from harness.model.run import Run, Source
from harness.model.verdict import Abstain, Fail, Outcome, Signature, Verdict
from harness.oracles import registry
from harness.oracles.traits import PromiseScope
from harness.watched.call_sites import CallSites
from harness.watched.quiet_scripts import say, unlaunched
from harness.watched.watch_records import (
    TEST_VARIABLE,
    LaunchedBuild,
    LaunchFailure,
    RecordFiles,
    TestChecks,
    UncompiledProgram,
    WatchPlan,
)

RECORD_INTERVAL_S = 1.0
WORTH_RECORDING = 2
"""A launch that shows a recorded failure again is recorded if it has this many times fewer programs."""
LOOKED_UP_LAUNCHES = 64
"""The first launches of a test: the calls that led to them are looked up."""
RECORDED_CALLS = 8
"""Different calls of a test that are recorded."""
DTYPES = {torch_dtype: dtype for dtype, torch_dtype in TORCH_DTYPES.items() if dtype.is_float}


class LaunchRecorder:
    """Judges launches and writes what they show, test by test: failures at once, counts about once a second."""

    def __init__(self, plan: WatchPlan, files: RecordFiles | None) -> None:
        """Write to these files; None to write nothing."""
        self._sites = CallSites(plan.libraries, plan.scratch)
        oracles = tuple(map(registry.find, plan.oracles))
        self._replay_oracles = tuple(one for one in oracles if one.traits.scope is PromiseScope.REPLAY)
        self._oracles = tuple(one for one in oracles if one not in self._replay_oracles)
        self._lock = threading.RLock()
        self.record_to(files)

    def record_to(self, files: RecordFiles | None) -> None:
        """Write to these files from now on, as if nothing had been seen before; None to write nothing."""
        self._files = files
        self._has_launched = False
        self.test = ""
        self._called_test, self._looked_up = "", 0
        self._calls: set[str] = set()
        self._recorded: dict[Signature, int] = {}
        """The number of programs of the launch that was recorded last, by what it showed."""
        self._forget()

    def write_at_exit(self) -> None:
        """Write when this process ends, and when a forked child of it does."""
        atexit.register(self._end)
        os.register_at_fork(after_in_child=self.begin_in_child)

    def _end(self) -> None:
        self.write()
        if not self._has_launched and (text := unlaunched(current_test())):
            say(text)

    def begin_in_child(self) -> None:
        """Start anew in a forked child, which the parent's counts do not concern."""
        self._lock = threading.RLock()
        self._forget()
        if "multiprocessing.util" in sys.modules:  # its children leave without `atexit`
            sys.modules["multiprocessing.util"].Finalize(None, self.write, exitpriority=0)

    def add(self, test: str, run: Run, details: "LaunchDetails") -> None:
        """Judge and count one launch of a test, and record what it shows for the first time."""
        with self._lock:
            if self._files is None:
                return
            verdicts = registry.judge_all(run, {}, {}, (), self._oracles)
            self._begin(test)
            launches = max(1, len(run.launches))  # several if a CUDA graph is replayed
            self._launches += launches
            self._has_launched = True
            self._kernels |= {launch.kernel for launch in run.launches}
            self._judged.update({verdict.oracle for verdict in verdicts if not isinstance(verdict, Abstain)})
            if registry.outcome(run, verdicts) is Outcome.ABSTAIN:
                self._unchecked.update(dict.fromkeys(registry.reasons(verdicts)[:1], launches))
            self._add_failures(test, verdicts, run, details)
            for launch in run.launches:
                if launch.build not in self._builds:
                    self._builds.add(launch.build)
                    self._files.add(
                        LaunchedBuild(test=test, dtype=run.case.dtype, launch=launch, called_from=details.called_from())
                    )
            if time.monotonic() - self._written_at > RECORD_INTERVAL_S:
                self.write()

    def add_use(self, test: str, run: Run, details: "LaunchDetails") -> None:
        """Judge a use of memory after the launch of the run, and record what it shows for the first time."""
        with self._lock:
            if self._files is not None:
                self._begin(test)
                self._add_failures(test, registry.judge_all(run, {}, {}, (), self._oracles), run, details)

    def add_replay(self, test: str, run: Run, details: "LaunchDetails") -> None:
        """Judge the replay of a CUDA graph by itself; its launches are added one by one."""
        with self._lock:
            if self._files is not None:
                self._begin(test)
                verdicts = registry.judge_all(run, {}, {}, (), self._replay_oracles)
                self._judged.update({verdict.oracle for verdict in verdicts})
                self._add_failures(test, verdicts, run, details)

    def _begin(self, test: str) -> None:
        """Begin to count anew if another test runs."""
        if test != self.test:
            self.write()
            self._forget()
            self.test = test

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

    def add_uncompiled(self, reason: str) -> None:
        """Record a program of `torch.compile` that runs uncompiled."""
        with self._lock:
            if self._files is not None:
                self._files.add(UncompiledProgram(reason=reason))

    def _add_failures(self, test: str, verdicts: Iterable[Verdict], run: Run, details: "LaunchDetails") -> None:
        fails = [verdict for verdict in verdicts if isinstance(verdict, Fail)]
        self._failed.update({fail.oracle for fail in fails})
        for fail in fails:
            if fail.signature not in self._seen:
                self._seen.add(fail.signature)
                self._add_failure(test, fail, run, details)

    def _add_failure(self, test: str, fail: Fail, run: Run, details: "LaunchDetails") -> None:
        assert self._files is not None, "nothing is recorded"
        index = min(fail.launch_index or 0, len(run.launches) - 1)
        launch = run.launches[index] if run.launches else None
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
                captured_at=details.captured_at[index] if details.captured_at else None,
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
        self._builds: set[str] = set()
        self._seen: set[Signature] = set()


@dataclass(frozen=True, slots=True)
class LaunchDetails:
    """What is read of a launch only if it shows a failure."""

    called_from: Callable[[], Source | None]
    save: Callable[[Path], None]
    """Writes a file that repeats the launch.  It may raise `CannotRecord`."""
    captured_at: Sequence[Source | None] = ()
    """For the launches of a replayed CUDA graph, the lines from which they were captured."""


def current_test() -> str:
    """Return the test that runs, as pytest names it; outside pytest the script."""
    test = os.environ.get(TEST_VARIABLE, "")
    if test:
        return test.rpartition(" (")[0] or test
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None) or (sys.argv[0] if sys.argv else "")
    return os.path.relpath(file) if file else "python"


def launch_case(request: LaunchRequest, device: DeviceProfile) -> Case:
    types = (DTYPES.get(tensor.dtype) for tensor in tensors_of(request).values())
    return Case(op="", dims={}, dtype=next(filter(None, types), DType.FP32), device=device)
