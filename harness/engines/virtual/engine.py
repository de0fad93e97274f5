"""The virtual engine: runs cases in this process, on the CPU, as on the GPU that it emulates."""

import importlib
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Protocol, runtime_checkable

import torch

from harness.engines.torch.inductor.inductor_emulation import EMULATION
from harness.engines.triton import triton_seam
from harness.engines.triton.build_resources import compile_resources
from harness.engines.triton.driver import LaunchHandler, RuntimeSupport, VirtualDriver
from harness.engines.triton.warmup import report_resources_at_warmup
from harness.engines.virtual.engine_settings import settings_of
from harness.engines.virtual.launches import Launches, VirtualCaseLaunches
from harness.engines.virtual.native.native_code import NativeBackend
from harness.engines.virtual.operations.rounding_growth import RoundingGrowth
from harness.engines.virtual.tuning_runs import TuningRuns
from harness.execution.case_execution import ExecutionFactory
from harness.execution.exact_memory import ExactMemory
from harness.execution.execution import Execution
from harness.execution.execution_hooks import ObservedLaunches, with_failed_kernel
from harness.execution.paired_run_policy import TuningCheck, is_sampled, order_matters, tuning_check
from harness.execution.poison import FreshMemory
from harness.execution.rounding_samples import are_right, is_right
from harness.model.case import Case, LaneFill, Scale
from harness.model.device import DeviceProfile
from harness.model.ending import REFUSED_BUILDS
from harness.model.op import Op
from harness.model.paired_run import PairedRun, PairedRunRequest
from harness.model.run import (
    Completed,
    Ending,
    ExactComparison,
    ExactRun,
    Raised,
    Refilled,
    Result,
    Run,
    UndefinedLanes,
)
from harness.model.tuning import InterruptedRun, KeyCheck, TunedRun
from harness.oracles.endings import describe
from harness.settings import Settings


@runtime_checkable
class ExactExecution(Protocol):
    """An execution that can repeat a case in exact arithmetic."""

    def run_exact(self, op: Op, case: Case, memory: ExactMemory) -> tuple[Ending, tuple[ExactComparison, ...]]:
        """Return how the exact run ended, and its comparisons; none unless it completed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tuned:
    """What the checks of a case's autotuners found."""

    tuned: TunedRun | None = None
    keys: KeyCheck | None = None
    interrupted: InterruptedRun | None = None
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])


class VirtualEngine:
    """Emulates one device and runs cases on it.  A process has one engine."""

    name = "virtual"
    checks_tuning = True
    """False if the launches of benchmarks would disturb what the engine reports."""

    def __init__(
        self,
        around: Callable[[Launches], LaunchHandler] = lambda launches: launches,
        make_execution: ExecutionFactory = Execution,
        fresh: FreshMemory | None = None,
    ) -> None:
        """Make an engine that emulates no device yet.  Reads the environment.

        Args:
            around: may wrap the handler of launches, to see each launch before and after it is executed.
            make_execution: makes the execution of cases; that of ops by default.
            fresh: poisons fresh memory; the engine's own by default.
        """
        self._settings = settings_of(os.environ)
        self._around = around
        self._fresh = FreshMemory() if fresh is None else fresh
        self._chooser = triton_seam.ConfigChooser()
        self._new_execution = partial(
            make_execution,
            lambda: self._fresh,
            _pretend_on_this_thread,
            launches=ObservedLaunches(
                writer_of=self._writer_of,
                dot_precisions=self._dot_precisions,
                on_imported=self._note_allocator,
                is_compared=lambda case: (
                    is_sampled(case) or order_matters(self._case_launches.launches, self._case_launches.memory)
                ),
            ),
        )
        self._execution = self._new_execution()
        self._launches: Launches | None = None

    def prepare(self) -> None:
        """Install the emulation of torch.cuda, and load what every case needs on any device.

        TorchDynamo takes 0.8 s; torch's modes and most libraries import it.  A version that asks for the GPU at import
        raises here, and each process imports it later.
        """
        from harness.engines.torch.torch_emulation import DeviceNotEmulated, install_emulation  # noqa: PLC0415 - it changes torch for good

        # Autograd starts a thread per visible GPU.  That starts CUDA, which fails in forked processes.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        install_emulation()
        triton_seam.hash_compiler()
        with suppress(DeviceNotEmulated):
            importlib.import_module("torch._dynamo")

    def emulate(self, device: DeviceProfile) -> None:
        """Make Triton and torch see the device, and cut the compiler's pipeline after TTIR."""
        from harness.engines.torch.torch_emulation import emulate_torch  # noqa: PLC0415 - it changes torch for good

        self._launches = Launches(
            device=device,
            chosen=lambda: self._chooser.chosen,
            poison_of=self._fresh.poison_of,
            compile_now=lambda ttir, options: compile_resources(ttir, device.arch, options),
            settings=self._settings,
        )
        emulate_torch(device)
        self._drive(device, self._around(self._launches))
        triton_seam.on_compile(lambda seconds: self._case_launches.add_seconds("front_end", seconds))
        self._chooser.install()
        EMULATION.choice = self._chooser
        EMULATION.folder = Settings.from_environment(os.environ).cache / "inductor"

    def _drive(self, device: DeviceProfile, on_launch: LaunchHandler) -> None:
        """Set Triton's driver, and how far kernels are compiled."""
        support = RuntimeSupport(chooser=self._chooser, poison=self._fresh.adopt)
        driver = VirtualDriver(device, on_launch, support)
        triton_seam.set_driver(driver)
        triton_seam.compile_to_ttir_only()
        report_resources_at_warmup(
            lambda ttir, options: compile_resources(ttir, device.arch, options), driver.utils.record_usage
        )
        triton_seam.query_ptxas_version(device.arch)

    def obstacle(self) -> str:
        return ""

    def begin(self) -> str:
        return ""

    def execute_with(self, executing: NativeBackend) -> None:
        """Replace the native code that is tried before the machine."""
        assert self._launches is not None, "emulate a device first"
        self._launches.native = executing

    def run(self, op: Op, case: Case) -> Run:
        case_launches = self._begin(case, case.lane_fill)
        refilled, exact, tuning = None, None, _Tuned()
        try:
            ending, results = self._execution.run(op, case)
            ending = case_launches.halted or with_failed_kernel(ending, self._chooser.failed)
            mismatches, notes = self._execution.mismatches, tuple(self._execution.notes)
            eager = dict(EMULATION.eager)
            if isinstance(ending, Completed) and needs_exact_run(case, case_launches, results):
                exact = self._run_exactly(op, case, case_launches, results)
            if isinstance(ending, Completed) and _needs_refill(case, case_launches):
                refilled = self._refill(op, case, case_launches)
            check = needed_tuning_check(op, case, case_launches, ending)
            if check is not None and self.checks_tuning and self._chooser.autotuned:
                tuning = self._check_autotuners(op, case, case_launches, results, check)
        finally:
            self._fresh.forget()
        return Run(
            case=case,
            engine=self.name,
            ending=ending,
            launches=tuple(case_launches.launches),
            results=() if case_launches.halted else results,
            mismatches=() if case_launches.halted else mismatches,
            notes=notes,
            eager=eager,
            memory=tuple(case_launches.memory),
            refilled=refilled,
            exact=exact,
            tuned=tuning.tuned,
            keys=tuning.keys,
            interrupted=tuning.interrupted,
            seconds={**_seconds_by_part(self._execution.seconds, case_launches.seconds), **tuning.seconds},
        )

    def run_paired(self, op: Op, request: PairedRunRequest) -> PairedRun:
        """Run one case without comparing it with a reference, and with only one fill of undefined lanes."""
        case = request.case
        case_launches = self._begin(case, case.lane_fill)
        case_launches.checks_threads = False
        try:
            ending, sketches = self._execution.run_paired(op, request)
        finally:
            self._fresh.forget()
        return PairedRun(
            case=case,
            engine=self.name,
            ending=case_launches.halted or with_failed_kernel(ending, self._chooser.failed),
            launches=tuple(case_launches.launches),
            sketches=() if case_launches.halted else sketches,
            memory=tuple(case_launches.memory),
            seconds=_seconds_by_part(self._execution.seconds, case_launches.seconds),
        )

    def _begin(self, case: Case, lane_fill: LaneFill) -> VirtualCaseLaunches:
        assert self._launches is not None, "emulate a device first"
        self._chooser.requested, self._chooser.failed = case.configs, None
        self._chooser.compiles_all = is_sampled(case) and case.scale is Scale.USUAL
        self._chooser.autotuned.clear()
        EMULATION.parts.clear()
        self._launches.case_launches = VirtualCaseLaunches(
            lane_fill=lane_fill, order=case.order, seed=case.seed, scale=case.scale
        )
        self._launches.case_launches.main_has_allocator = triton_seam.has_allocator()
        return self._launches.case_launches

    def _refill(self, op: Op, case: Case, first: VirtualCaseLaunches) -> Refilled:
        """Run the case again with another fill of undefined lanes.  Only that can make the results differ."""
        self._fresh.forget()
        again = self._begin(case, LaneFill.ODD)
        again.checks_threads = False
        ending, digests = self._execution.run_again(op, case)
        for part, seconds in again.seconds.items():
            first.add_seconds(part, seconds)
        return Refilled(ending=again.halted or ending, digests=digests)

    def _check_autotuners(
        self, op: Op, case: Case, first: VirtualCaseLaunches, results: tuple[Result, ...], check: TuningCheck
    ) -> _Tuned:
        """Run the case again to check its autotuners."""
        assert self._launches is not None
        seconds, began = self._execution.seconds, time.perf_counter()

        def begin(case: Case) -> VirtualCaseLaunches:
            self._fresh.forget()
            again = self._begin(case, case.lane_fill)
            again.checks_threads = False
            return again

        runs = TuningRuns(
            op=op,
            execution=self._execution,
            chooser=self._chooser,
            begin=begin,
            other_execution=self._new_execution,
            on_other_thread=_pretend_on_this_thread,
        )
        self._execution.seconds = {}
        match check:
            case TuningCheck.TUNING:
                found = _Tuned(tuned=runs.tune(case, tuple(first.launches)))
            case TuningCheck.KEYS:
                found = _Tuned(keys=runs.check_keys(case))
            case TuningCheck.THREADS:
                digests = {result.name: result.digest for result in results}
                found = _Tuned(interrupted=runs.interrupt(case, tuple(first.launches), digests))
        self._launches.case_launches, self._execution.seconds = first, seconds
        return replace(found, seconds={"tuning": time.perf_counter() - began})

    def _run_exactly(
        self, op: Op, case: Case, first: VirtualCaseLaunches, results: tuple[Result, ...]
    ) -> ExactRun | None:
        """Run the case again in exact arithmetic; once more, if a result is off, to find where its digits go."""
        if not isinstance(self._execution, ExactExecution):
            return None
        exact = self._exact_run(self._execution, op, case, first, None)
        lost = {result.name for result in results if not is_right(result)}
        if not any(one.name in lost or not one.is_right for one in exact.comparisons):
            return exact
        growth = RoundingGrowth()
        moved = self._exact_run(self._execution, op, case, first, growth)
        return replace(exact, comparisons=moved.comparisons or exact.comparisons, roundings=growth.launches())

    def _exact_run(
        self,
        execution: ExactExecution,
        op: Op,
        case: Case,
        first: VirtualCaseLaunches,
        growth: RoundingGrowth | None,
    ) -> ExactRun:
        assert self._launches is not None
        self._fresh.forget()
        memory = ExactMemory()
        again = self._begin(case, case.lane_fill)
        with self._launches.exactly(memory, growth):
            ending, comparisons = execution.run_exact(op, case, memory)
        self._launches.case_launches = first
        first.add_seconds("exact", sum(again.seconds.values()))
        ending = again.halted or ending
        return ExactRun(
            comparisons=comparisons,
            doubts=tuple(memory.doubts),
            obstacle="" if isinstance(ending, Completed) else describe(ending),
        )

    def _writer_of(self, result: torch.Tensor) -> tuple[str, str] | None:
        return self._case_launches.writers.get(result.untyped_storage().data_ptr())

    def _note_allocator(self) -> None:
        self._case_launches.main_has_allocator = triton_seam.has_allocator()

    def _dot_precisions(self) -> set[str]:
        return {precision for launch in self._case_launches.launches for precision in launch.dot_precisions}

    @property
    def _case_launches(self) -> VirtualCaseLaunches:
        assert self._launches is not None
        return self._launches.case_launches


MOST_TUNED_PROGRAMS = 8192
"""Programs of all launches beyond which a case is not run again with autotuners that tune: it would take long."""
EXACT_SHARE = 8
"""One case of so many has an exact run although its results are right: it takes about as long as the case."""


def needs_exact_run(case: Case, case_launches: VirtualCaseLaunches, results: tuple[Result, ...]) -> bool:
    """Return True if a result is wrong, or the case belongs to the share that is computed exactly in any case."""
    if case.scale is Scale.OVERSIZED or case_launches.halted or not results:
        return False
    if any(launch.model for launch in case_launches.launches):  # another runtime computes between the kernels
        return False
    is_drawn = case.scale is Scale.USUAL and int(case.digest, 16) % EXACT_SHARE == 0
    return case.is_exact or is_drawn or not are_right(results)


def needed_tuning_check(op: Op, case: Case, case_launches: VirtualCaseLaunches, ending: Ending) -> TuningCheck | None:
    """Return the check of its autotuners for which a case that has some is run again; None if it is not.

    If none of a kernel's configs works, the autotuner tunes: that is where it chooses one all the same.
    """
    programs = sum(prod(launch.grid) for launch in case_launches.launches)
    if isinstance(ending, Raised):
        return TuningCheck.TUNING if ending.kind in REFUSED_BUILDS and is_sampled(case) else None
    if not isinstance(ending, Completed) or programs > MOST_TUNED_PROGRAMS:
        return None
    check = tuning_check(case)
    return TuningCheck.KEYS if check is TuningCheck.THREADS and not op.threads else check


def _needs_refill(case: Case, case_launches: VirtualCaseLaunches) -> bool:
    """Return True if the case met undefined lanes, filled them with zero, and its results can be compared."""
    has_undefined = any(isinstance(event, UndefinedLanes) for event in case_launches.memory)
    return has_undefined and case.lane_fill is LaneFill.ZERO and case.scale is Scale.USUAL


def _pretend_on_this_thread() -> None:
    """Enter torch's mode in this thread: modes are thread-local, and backward passes run in their own thread."""
    from harness.engines.torch.cpu_tensors import CpuTensors  # noqa: PLC0415 - as in `emulate`

    CpuTensors().__enter__()


def _seconds_by_part(phases: dict[str, float], launches: dict[str, float]) -> dict[str, float]:
    """Return seconds by part.  The host part is forward and backward without compiler and executors."""
    calls = phases.get("forward", 0.0) + phases.get("backward", 0.0)
    parts = {name: phases.get(name, 0.0) for name in ("inputs", "reference", "compare")}
    return {**parts, **launches, "host": max(0.0, calls - sum(launches.values()))}
