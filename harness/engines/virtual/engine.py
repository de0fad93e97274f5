"""The virtual engine: runs cases in this process, on the CPU, as on the GPU that it emulates."""

import os
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Protocol, runtime_checkable

import torch

from harness.engines.torch.captured_graphs import note_lost_contents
from harness.engines.torch.inductor.inductor_emulation import EMULATION, load_dynamo
from harness.engines.triton import triton_seam
from harness.engines.triton.build_resources import compile_resources
from harness.engines.triton.driver import LaunchHandler, RuntimeSupport, VirtualDriver
from harness.engines.triton.warmup import report_resources_at_warmup
from harness.engines.virtual.call_checks import CallChecks
from harness.engines.virtual.engine_settings import settings_of
from harness.engines.virtual.launches import Launches, VirtualCaseLaunches
from harness.engines.virtual.native.native_code import NativeBackend
from harness.engines.virtual.operations.rounding_growth import RoundingGrowth
from harness.engines.virtual.tuning_runs import TuningRuns
from harness.execution.case_execution import ExecutionFactory
from harness.execution.exact_memory import ExactMemory
from harness.execution.execution import Execution
from harness.execution.execution_hooks import ObservedLaunches
from harness.execution.followed_memory import FollowedMemory
from harness.execution.paired_run_policy import is_sampled, order_matters
from harness.execution.reruns import AUTOTUNER_CHECKS, Rerun, RerunRequest, recording, with_reruns, with_seconds
from harness.execution.row_checks import RowExecution, Work, check_rows
from harness.execution.row_trials import Arrangement, RowComparison
from harness.model.case import Case, LaneFill
from harness.model.device import DeviceProfile
from harness.model.engine_traits import VIRTUAL
from harness.model.op import Op
from harness.model.paired_run import PairedRun, PairedRunRequest
from harness.model.run import Completed, Ending, ExactComparison, ExactRun, Launch, Refilled, Run
from harness.oracles.endings import SUITE_PHASES, describe
from harness.settings import Settings


@runtime_checkable
class ExactExecution(Protocol):
    """An execution that can repeat a case in exact arithmetic."""

    def run_exact(self, op: Op, case: Case, memory: ExactMemory) -> tuple[Ending, tuple[ExactComparison, ...]]:
        """Return how the exact run ended, and its comparisons; none unless it completed."""
        ...


class VirtualEngine:
    """Emulates one device and runs cases on it.  A process has one engine."""

    traits = VIRTUAL
    reruns: frozenset[Rerun] = frozenset(Rerun)
    """The reruns that the engine serves."""
    make_launches: type[Launches] = Launches
    """What executes the launches."""

    def __init__(
        self,
        around: Callable[[Launches], LaunchHandler] = lambda launches: launches,
        make_execution: ExecutionFactory = Execution,
        fresh: FollowedMemory | None = None,
    ) -> None:
        """Make an engine that emulates no device yet.

        Args:
            around: may wrap the handler of launches, to see each launch before and after it is executed.
            make_execution: makes the execution of cases; that of ops by default.
            fresh: poisons fresh memory and follows it; by default the engine's own, whose uses are events of the case.
        """
        self._around = around
        if fresh is None:
            fresh = FollowedMemory()
            fresh.on_use = lambda use, _: self._case_launches.memory.append(use)
        self._fresh = fresh
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

        A TorchDynamo that asks for the GPU at import raises here, and each process imports it later.
        """
        from harness.engines.torch.torch_emulation import DeviceNotEmulated, install_emulation  # noqa: PLC0415 - it changes torch for good

        # Autograd starts a thread per visible GPU.  That starts CUDA, which fails in forked processes.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        install_emulation()
        triton_seam.hash_compiler()
        with suppress(DeviceNotEmulated):
            load_dynamo()

    def emulate(self, device: DeviceProfile) -> None:
        """Make Triton and torch see the device, and cut the compiler's pipeline after TTIR.  Reads the environment."""
        from harness.engines.torch.torch_emulation import emulate_torch  # noqa: PLC0415 - it changes torch for good

        self._launches = self.make_launches(
            device=device,
            chosen=lambda: self._chooser.chosen,
            poison_of=self._fresh.poison_of,
            compile_now=lambda ttir, options: compile_resources(ttir, device.arch, options),
            settings=settings_of(os.environ),
        )
        self._launches.on_store = self._fresh.stored
        emulate_torch(device)
        note_lost_contents(self._fresh)
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

    def move(self) -> None:
        """Use the folders that the environment names now."""
        assert self._launches is not None, "emulate a device first"
        self._launches.use(settings_of(os.environ))

    def execute_with(self, executing: NativeBackend) -> None:
        """Replace the native code that is tried before the machine."""
        assert self._launches is not None, "emulate a device first"
        self._launches.native = executing

    def run(self, op: Op, case: Case) -> Run:
        first = self._main_run(op, case)
        served = self.reruns if self._chooser.autotuned else self.reruns.difference(AUTOTUNER_CHECKS)
        return with_reruns(first, op, served, partial(self._serve, op))

    def run_paired(self, op: Op, request: PairedRunRequest) -> PairedRun:
        """Run one case without comparing it with a reference, and with only one fill of undefined lanes."""
        case = request.case
        with self._state_for(case, compiles_configs=request.compiles_configs) as launches:
            ending, sketches = self._execution.run_paired(op, request)
            return PairedRun(
                case=case,
                engine=self.traits.name,
                ending=launches.ending(ending, self._chooser.failed),
                launches=tuple(launches.launches),
                lines=launches.executed_lines(),
                sketches=() if launches.halted else sketches,
                memory=tuple(launches.memory),
                seconds=self._seconds(launches.seconds),
            )

    def _main_run(self, op: Op, case: Case) -> Run:
        with self._state_for(case, checks_threads=True) as launches:
            ending, results = self._execution.run(op, case)
            holds_nan = any(result.nonfinite for result in results) or bool(self._execution.nans)
            return Run(
                case=case,
                engine=self.traits.name,
                ending=launches.ending(ending, self._chooser.failed),
                launches=tuple(launches.launches),
                lines=launches.executed_lines(),
                results=() if launches.halted else results,
                mismatches=() if launches.halted else self._execution.mismatches,
                is_undefined=self._execution.is_undefined,
                nans=() if launches.halted else self._execution.nans,
                notes=tuple(self._execution.notes),
                unasked=self._execution.unasked,
                eager=dict(EMULATION.eager),
                partly_stored=launches.partly_stored() if holds_nan else (),
                memory=tuple(launches.memory),
                seconds=self._seconds(launches.seconds),
            )

    @contextmanager
    def _state_for(
        self, case: Case, *, checks_threads: bool = False, compiles_configs: bool = False
    ) -> Generator[VirtualCaseLaunches]:
        """Hold the state of one run of a case, main run or rerun; the handler gets its former launches back.

        The threads of a case are checked in its main run alone.
        """
        assert self._launches is not None, "emulate a device first"
        self._chooser.requested, self._chooser.failed = case.configs, None
        self._chooser.compiles_all = compiles_configs
        self._chooser.autotuned.clear()
        EMULATION.parts.clear()
        self._execution.seconds = {}
        launches = VirtualCaseLaunches(
            lane_fill=case.lane_fill,
            order=case.order,
            seed=case.seed,
            scale=case.scale,
            checks_threads=checks_threads,
            main_has_allocator=triton_seam.has_allocator(),
        )
        try:
            with recording(self._launches, launches):
                yield launches
        finally:
            self._fresh.forget()

    def _seconds(self, launches: Mapping[str, float]) -> dict[str, float]:
        """Return seconds by part.  The host part is forward and backward without compiler and executors."""
        phases = self._execution.seconds
        calls = phases.get("forward", 0.0) + phases.get("backward", 0.0)
        parts = {name: phases.get(name, 0.0) for name in ("inputs", "reference", "compare")}
        return {**parts, **launches, "host": max(0.0, calls - sum(launches.values()))}

    # --- reruns ---

    def _serve(self, op: Op, request: RerunRequest) -> Run:
        """Return the run of the request with the outcome of the rerun."""
        match request.rerun:
            case Rerun.EXACT:
                return self._run_exactly(op, request.first)
            case Rerun.LANE_FILL:
                return self._refill(op, request.first)
            case Rerun.ROWS:
                return self._check_rows(op, request.first)
            case Rerun.TUNING | Rerun.KEYS | Rerun.THREADS:
                return self._check_autotuners(op, request)
            case Rerun.LATER | Rerun.GRAPH:
                return self._check_calls(op, request)

    def _refill(self, op: Op, first: Run) -> Run:
        """Run the case with another fill of undefined lanes.  Only that can make the results differ."""
        with self._state_for(replace(first.case, lane_fill=LaneFill.ODD)) as launches:
            ending, digests = self._execution.run_again(op, first.case)
            refilled = Refilled(ending=launches.ending(ending, self._chooser.failed), digests=digests)
            seconds = self._seconds(launches.seconds)
            # The suite's own seconds stay apart: `completes` does not blame a kernel for them.
            suites = {phase: seconds.pop(phase) for phase in SUITE_PHASES}
            return with_seconds(replace(first, refilled=refilled), {**suites, "other lanes": sum(seconds.values())})

    def _check_rows(self, op: Op, first: Run) -> Run:
        """Run rows of the case in other company."""
        if not isinstance(self._execution, RowExecution):
            return first
        began = time.perf_counter()

        def trial(arrangement: Arrangement, work: Work) -> tuple[Ending, RowComparison, tuple[Launch, ...]]:
            with self._state_for(arrangement.case) as launches:
                ending, comparison = work()
                return launches.ending(ending, self._chooser.failed), comparison, tuple(launches.launches)

        checked = replace(first, rows=check_rows(self._execution, op, first, trial))
        return with_seconds(checked, {"rows": time.perf_counter() - began})

    def _check_autotuners(self, op: Op, request: RerunRequest) -> Run:
        """Run the case with autotuners that do something else than the case says."""
        first, began = request.first, time.perf_counter()
        runs = TuningRuns(
            op=op,
            execution=self._execution,
            chooser=self._chooser,
            state_for=self._state_for,
            other_execution=self._new_execution,
            on_other_thread=_pretend_on_this_thread,
        )
        match request.rerun:
            case Rerun.KEYS:
                checked = replace(first, keys=runs.check_keys(first.case))
            case Rerun.THREADS:
                digests = {result.name: result.digest for result in first.results}
                checked = replace(first, interrupted=runs.interrupt(first.case, first.launches, digests))
            case _:
                checked = replace(first, tuned=runs.tune(first.case, first.launches))
        return with_seconds(checked, {"tuning": time.perf_counter() - began})

    def _check_calls(self, op: Op, request: RerunRequest) -> Run:
        """Call the op again with the inputs of the case."""
        first, began = request.first, time.perf_counter()
        if not isinstance(self._execution, Execution):
            return first
        calls = CallChecks(op=op, execution=self._execution, chooser=self._chooser, state_for=self._state_for)
        if request.rerun is Rerun.LATER:
            checked = replace(first, later=calls.call_later(first.case))
        else:
            checked = replace(first, replayed=calls.replay(first.case))
        return with_seconds(checked, {"later calls": time.perf_counter() - began})

    def _run_exactly(self, op: Op, first: Run) -> Run:
        """Run the case in exact arithmetic; once more, if a result is off, to find where its digits go."""
        if not isinstance(self._execution, ExactExecution):
            return first
        run, exact = self._exact_run(self._execution, op, first, None)
        lost = {result.name for result in first.results if not result.is_right}
        if any(comparison.name in lost or not comparison.is_right for comparison in exact.comparisons):
            growth = RoundingGrowth()
            run, moved = self._exact_run(self._execution, op, run, growth)
            exact = replace(exact, comparisons=moved.comparisons or exact.comparisons, roundings=growth.launches())
        return replace(run, exact=exact)

    def _exact_run(
        self, execution: ExactExecution, op: Op, first: Run, growth: RoundingGrowth | None
    ) -> tuple[Run, ExactRun]:
        """Return the run with the seconds of an exact run, and the exact run."""
        assert self._launches is not None
        memory = ExactMemory()
        with self._state_for(first.case) as launches, self._launches.exactly(memory, growth), self._fresh.paused():
            ending, comparisons = execution.run_exact(op, first.case, memory)
            ending = launches.ending(ending, self._chooser.failed)
            seconds = self._seconds({"exact": sum(launches.seconds.values())})
        return with_seconds(first, seconds), ExactRun(
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


def _pretend_on_this_thread() -> None:
    """Enter torch's mode in this thread: modes are thread-local, and backward passes run in their own thread."""
    from harness.engines.torch.cpu_tensors import CpuTensors  # noqa: PLC0415 - as in `emulate`

    CpuTensors().__enter__()
