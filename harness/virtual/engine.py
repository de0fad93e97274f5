"""The virtual engine: runs cases in this process, on the CPU, as on the GPU that it emulates."""

import importlib
import os
from collections.abc import Callable
from contextlib import suppress

import torch

from harness.model.case import Case, LaneFill, Scale
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.model.paired_run import PairedRun, PairedRunRequest
from harness.model.run import Completed, Refilled, Run, UndefinedLanes
from harness.ops.case_execution import ExecutionFactory
from harness.ops.execution import Execution
from harness.ops.execution_hooks import ObservedLaunches, with_failed_kernel
from harness.ops.paired_run_policy import is_sampled, order_matters
from harness.ops.poison import FreshMemory
from harness.virtual.driver import triton_seam
from harness.virtual.driver.compiler_process import compile_resources
from harness.virtual.driver.driver import LaunchHandler, VirtualDriver
from harness.virtual.driver.warmup import report_resources_at_warmup
from harness.virtual.engine_settings import settings_of
from harness.virtual.launches import Launches, VirtualCaseLaunches
from harness.virtual.native.native_code import NativeBackend


class VirtualEngine:
    """Emulates one device and runs cases on it.  A process has one engine."""

    name = "virtual"

    def __init__(
        self,
        around: Callable[[Launches], LaunchHandler] = lambda launches: launches,
        make_execution: ExecutionFactory = Execution,
    ) -> None:
        """Make an engine that emulates no device yet.  Reads the environment.

        Args:
            around: may wrap the handler of launches, to see each launch before and after it is executed.
            make_execution: makes the execution of cases; that of ops by default.
        """
        self._settings = settings_of(os.environ)
        self._around = around
        self._fresh = FreshMemory()
        self._chooser = triton_seam.ConfigChooser()
        self._execution = make_execution(
            lambda: self._fresh,
            _pretend_on_this_thread,
            launches=ObservedLaunches(
                writer_of=self._writer_of,
                dot_precisions=self._dot_precisions,
                is_compared=lambda case: (
                    is_sampled(case) or order_matters(self._case_launches.launches, self._case_launches.memory)
                ),
            ),
        )
        self._launches: Launches | None = None

    def prepare(self) -> None:
        """Install the emulation of torch.cuda, and load what every case needs on any device.

        TorchDynamo takes 0.8 s; torch's modes and most libraries import it.  A version that asks for the GPU at import
        raises here, and each process imports it later.
        """
        from harness.devices.torch_emulation import DeviceNotEmulated, install_emulation  # noqa: PLC0415 - it changes torch for good

        # Autograd starts a thread per visible GPU.  That starts CUDA, which fails in forked processes.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        install_emulation()
        triton_seam.hash_compiler()
        with suppress(DeviceNotEmulated):
            importlib.import_module("torch._dynamo")

    def emulate(self, device: DeviceProfile) -> None:
        """Make Triton and torch see the device, and cut the compiler's pipeline after TTIR."""
        from harness.devices.torch_emulation import emulate_torch  # noqa: PLC0415 - it changes torch for good

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

    def _drive(self, device: DeviceProfile, on_launch: LaunchHandler) -> None:
        """Set Triton's driver, and how far kernels are compiled."""
        driver = VirtualDriver(device, on_launch)
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
        refilled = None
        try:
            ending, results = self._execution.run(op, case)
            if isinstance(ending, Completed) and _needs_refill(case, case_launches):
                refilled = self._refill(op, case, case_launches)
        finally:
            self._fresh.forget()
        return Run(
            case=case,
            engine=self.name,
            ending=case_launches.halted or with_failed_kernel(ending, self._chooser.failed),
            launches=tuple(case_launches.launches),
            results=() if case_launches.halted else results,
            mismatches=() if case_launches.halted else self._execution.mismatches,
            memory=tuple(case_launches.memory),
            refilled=refilled,
            seconds=_seconds_by_part(self._execution.seconds, case_launches.seconds),
        )

    def run_paired(self, op: Op, request: PairedRunRequest) -> PairedRun:
        """Run one case without comparing it with a reference, and with only one fill of undefined lanes."""
        case = request.case
        case_launches = self._begin(case, case.lane_fill)
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
        self._launches.case_launches = VirtualCaseLaunches(
            lane_fill=lane_fill, order=case.order, seed=case.seed, scale=case.scale
        )
        return self._launches.case_launches

    def _refill(self, op: Op, case: Case, first: VirtualCaseLaunches) -> Refilled:
        """Run the case again with another fill of undefined lanes.  Only that can make the results differ."""
        self._fresh.forget()
        again = self._begin(case, LaneFill.ODD)
        ending, digests = self._execution.run_again(op, case)
        for part, seconds in again.seconds.items():
            first.add_seconds(part, seconds)
        return Refilled(ending=again.halted or ending, digests=digests)

    def _writer_of(self, result: torch.Tensor) -> tuple[str, str] | None:
        return self._case_launches.writers.get(result.untyped_storage().data_ptr())

    def _dot_precisions(self) -> set[str]:
        return {precision for launch in self._case_launches.launches for precision in launch.dot_precisions}

    @property
    def _case_launches(self) -> VirtualCaseLaunches:
        assert self._launches is not None
        return self._launches.case_launches


def _needs_refill(case: Case, case_launches: VirtualCaseLaunches) -> bool:
    """Return True if the case met undefined lanes, filled them with zero, and its results can be compared."""
    has_undefined = any(isinstance(event, UndefinedLanes) for event in case_launches.memory)
    return has_undefined and case.lane_fill is LaneFill.ZERO and case.scale is Scale.USUAL


def _pretend_on_this_thread() -> None:
    """Enter torch's mode in this thread: modes are thread-local, and backward passes run in their own thread."""
    from harness.devices.cpu_tensors import CpuTensors  # noqa: PLC0415 - as in `emulate`

    CpuTensors().__enter__()


def _seconds_by_part(phases: dict[str, float], launches: dict[str, float]) -> dict[str, float]:
    """Return seconds by part.  The host part is forward and backward without compiler and executors."""
    calls = phases.get("forward", 0.0) + phases.get("backward", 0.0)
    parts = {name: phases.get(name, 0.0) for name in ("inputs", "reference", "compare")}
    return {**parts, **launches, "host": max(0.0, calls - sum(launches.values()))}
