"""The virtual engine: cases run in this process as on the GPU that it wears."""

import os
from dataclasses import replace
from pathlib import Path

import torch

from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.model.run import Ending, Raised, Run
from harness.ops.execute import Execution
from harness.ops.poison import FreshMemory
from harness.virtual import triton_seam
from harness.virtual.builds import FOLDER_VARIABLE
from harness.virtual.driver import VirtualDriver
from harness.virtual.launches import Launches, Session
from harness.virtual.resources import compile_resources


class VirtualEngine:
    """Wears one device and runs cases on it; one to a process."""

    name = "virtual"

    def __init__(self) -> None:
        self._fresh = FreshMemory()
        self._chooser = triton_seam.ConfigChooser()
        self._execution = Execution(lambda: self._fresh, self._writer_of, _pretend_on_this_thread)
        self._launches: Launches | None = None

    def wear(self, device: DeviceProfile) -> None:
        """Answer for the device to Triton and torch, and cut the compiler's pipeline after TTIR."""
        from harness.devices.torch_answers import wear_torch  # noqa: PLC0415 - it changes torch for good

        builds = os.environ.get(FOLDER_VARIABLE)
        self._launches = Launches(
            arch=device.arch,
            chosen=lambda: self._chooser.chosen,
            poison_of=self._fresh.poison_of,
            compile_now=lambda ttir, options: compile_resources(ttir, device.arch, options),
            builds=Path(builds) if builds else None,
        )
        wear_torch(device)
        triton_seam.set_driver(VirtualDriver(device, self._launches))
        triton_seam.compile_to_ttir_only()
        triton_seam.on_compile(lambda seconds: self._session.add_seconds("front_end", seconds))
        self._chooser.install()

    def run(self, op: Op, case: Case) -> Run:
        """Run one case on the virtual GPU."""
        assert self._launches is not None, "wear a device first"
        session = self._launches.session = Session(lane_fill=case.lane_fill)
        self._chooser.wanted, self._chooser.failed = case.configs, None
        try:
            ending, results = self._execution.run(op, case)
        finally:
            self._fresh.forget()
        return Run(
            case=case,
            engine=self.name,
            ending=session.unsupported or self._blame_kernel(ending),
            launches=tuple(session.launches),
            results=() if session.unsupported else results,
            memory=tuple(session.memory),
            seconds=_split(self._execution.seconds, session.seconds),
        )

    def _blame_kernel(self, ending: Ending) -> Ending:
        """What was raised, with the kernel that was being built or launched."""
        if not isinstance(ending, Raised) or self._chooser.failed is None:
            return ending
        kernel, configs = self._chooser.failed
        return replace(ending, launch=kernel, config_count=configs)

    def _writer_of(self, result: torch.Tensor) -> tuple[str, str] | None:
        return self._session.writers.get(result.untyped_storage().data_ptr())

    @property
    def _session(self) -> Session:
        assert self._launches is not None
        return self._launches.session


def _pretend_on_this_thread() -> None:
    """Torch's modes belong to a thread: the one that runs backward passes needs its own."""
    from harness.devices.cpu_tensors import CpuTensors  # noqa: PLC0415 - as in `wear`

    CpuTensors().__enter__()


def _split(phases: dict[str, float], session: dict[str, float]) -> dict[str, float]:
    """Seconds by part: what forward and backward took beside the compiler and the machine is the host's."""
    calls = phases.get("forward", 0.0) + phases.get("backward", 0.0)
    parts = {name: phases.get(name, 0.0) for name in ("inputs", "reference", "compare")}
    return {**parts, **session, "host": max(0.0, calls - sum(session.values()))}
