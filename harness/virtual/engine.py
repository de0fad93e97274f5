"""The virtual engine: cases run in this process as on the GPU that it wears."""

import importlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch

from harness.model.case import Case, LaneFill, Scale
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.model.paired_run import PairedRun, PairedRunRequest, is_sampled, order_matters
from harness.model.run import Completed, Refilled, Run, UndefinedLanes
from harness.ops.execution import Execution
from harness.ops.execution_hooks import ObservedLaunches, blamed
from harness.ops.poison import FreshMemory
from harness.virtual.driver import triton_seam
from harness.virtual.driver.builds import FOLDER_VARIABLE
from harness.virtual.driver.compiler_process import compile_resources
from harness.virtual.driver.driver import LaunchHandler, VirtualDriver
from harness.virtual.driver.warmup import tell_what_kernels_take
from harness.virtual.launches import Launches, VirtualCaseLaunches
from harness.virtual.native.policy import Executing, NativeCode, executor_of


class VirtualEngine:
    """Wears one device and runs cases on it; one to a process."""

    name = "virtual"

    def __init__(self, around: Callable[[Launches], LaunchHandler] = lambda launches: launches) -> None:
        """`around` may stand between the driver and the launches, to see both sides of each."""
        self._around = around
        self._fresh = FreshMemory()
        self._chooser = triton_seam.ConfigChooser()
        self._execution = Execution(
            lambda: self._fresh,
            _pretend_on_this_thread,
            seen=ObservedLaunches(
                writer_of=self._writer_of,
                dot_precisions=self._dot_precisions,
                is_compared=lambda case: (
                    is_sampled(case) or order_matters(self._session.launches, self._session.memory)
                ),
            ),
        )
        self._launches: Launches | None = None

    def prepare(self) -> None:
        """Put torch's answers in place, and load what every case needs on any device.

        TorchDynamo, 0.8 s, is imported by torch's modes and by most libraries.  One that asks which GPU this is will be
        imported later, by every process for itself.
        """
        from harness.devices.torch_emulation import NotWorn, pretend  # noqa: PLC0415 - it changes torch for good

        # Autograd starts a thread for every GPU that is there, and so CUDA, in processes that were forked.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        pretend()
        triton_seam.hash_compiler()
        with suppress(NotWorn):
            importlib.import_module("torch._dynamo")

    def wear(self, device: DeviceProfile) -> None:
        """Answer for the device to Triton and torch, and cut the compiler's pipeline after TTIR."""
        from harness.devices.torch_emulation import wear_torch  # noqa: PLC0415 - it changes torch for good

        builds = os.environ.get(FOLDER_VARIABLE)
        self._launches = Launches(
            device=device,
            chosen=lambda: self._chooser.chosen,
            poison_of=self._fresh.poison_of,
            compile_now=lambda ttir, options: compile_resources(ttir, device.arch, options),
            builds=Path(builds) if builds else None,
        )
        self._launches.native = NativeCode(executor_of(os.environ), Path(builds) if builds else None)
        wear_torch(device)
        self._drive(device, self._around(self._launches))
        triton_seam.on_compile(lambda seconds: self._session.add_seconds("front_end", seconds))
        self._chooser.install()

    def _drive(self, device: DeviceProfile, on_launch: LaunchHandler) -> None:
        """Choose the driver that Triton asks, and how far kernels are compiled."""
        driver = VirtualDriver(device, on_launch)
        triton_seam.set_driver(driver)
        triton_seam.compile_to_ttir_only()
        tell_what_kernels_take(lambda ttir, options: compile_resources(ttir, device.arch, options), driver.utils.tell)
        triton_seam.ask_assembler(device.arch)

    def obstacle(self) -> str:
        """Nothing is ever in the way: there is no device."""
        return ""

    def begin(self) -> str:
        """Nothing can be wrong with a GPU that is not there."""
        return ""

    def execute_with(self, executing: Executing) -> None:
        """Let something else than the native code of `wear` execute launches first."""
        assert self._launches is not None, "wear a device first"
        self._launches.native = executing

    def run(self, op: Op, case: Case) -> Run:
        """Run one case on the virtual GPU."""
        session = self._begin(case, case.lane_fill)
        refilled = None
        try:
            ending, results = self._execution.run(op, case)
            if isinstance(ending, Completed) and _has_other_lanes(case, session):
                refilled = self._refill(op, case, session)
        finally:
            self._fresh.forget()
        return Run(
            case=case,
            engine=self.name,
            ending=session.halted or blamed(ending, self._chooser.failed),
            launches=tuple(session.launches),
            results=() if session.halted else results,
            memory=tuple(session.memory),
            refilled=refilled,
            seconds=_split(self._execution.seconds, session.seconds),
        )

    def run_beside(self, op: Op, wanted: PairedRunRequest) -> PairedRun:
        """Run one case on the virtual GPU, compared with no reference, and with undefined lanes of one filling."""
        case = wanted.case
        session = self._begin(case, case.lane_fill)
        try:
            ending, sketches = self._execution.run_beside(op, wanted)
        finally:
            self._fresh.forget()
        return PairedRun(
            case=case,
            engine=self.name,
            ending=session.halted or blamed(ending, self._chooser.failed),
            launches=tuple(session.launches),
            sketches=() if session.halted else sketches,
            memory=tuple(session.memory),
            seconds=_split(self._execution.seconds, session.seconds),
        )

    def _begin(self, case: Case, lane_fill: LaneFill) -> VirtualCaseLaunches:
        assert self._launches is not None, "wear a device first"
        self._chooser.wanted, self._chooser.failed = case.configs, None
        self._launches.session = VirtualCaseLaunches(
            lane_fill=lane_fill, order=case.order, seed=case.seed, scale=case.scale
        )
        return self._launches.session

    def _refill(self, op: Op, case: Case, first: VirtualCaseLaunches) -> Refilled:
        """The case once more with other undefined lanes: nothing but them can make the results differ."""
        self._fresh.forget()
        again = self._begin(case, LaneFill.ODD)
        ending, digests = self._execution.run_again(op, case)
        for part, seconds in again.seconds.items():
            first.add_seconds(part, seconds)
        return Refilled(ending=again.halted or ending, digests=digests)

    def _writer_of(self, result: torch.Tensor) -> tuple[str, str] | None:
        return self._session.writers.get(result.untyped_storage().data_ptr())

    def _dot_precisions(self) -> set[str]:
        return {precision for launch in self._session.launches for precision in launch.dot_precisions}

    @property
    def _session(self) -> VirtualCaseLaunches:
        assert self._launches is not None
        return self._launches.session


def _has_other_lanes(case: Case, session: VirtualCaseLaunches) -> bool:
    """Whether the case met undefined lanes, filled with zero, and its results can be compared."""
    met = any(isinstance(event, UndefinedLanes) for event in session.memory)
    return met and case.lane_fill is LaneFill.ZERO and case.scale is Scale.USUAL


def _pretend_on_this_thread() -> None:
    """Torch's modes belong to a thread: the one that runs backward passes needs its own."""
    from harness.devices.cpu_tensors import CpuTensors  # noqa: PLC0415 - as in `wear`

    CpuTensors().__enter__()


def _split(phases: dict[str, float], session: dict[str, float]) -> dict[str, float]:
    """Seconds by part: what forward and backward took beside the compiler and the machine is the host's."""
    calls = phases.get("forward", 0.0) + phases.get("backward", 0.0)
    parts = {name: phases.get(name, 0.0) for name in ("inputs", "reference", "compare")}
    return {**parts, **session, "host": max(0.0, calls - sum(session.values()))}
