"""Engines for tests of the workers: they call the op's function with the case's dims and compare nothing."""

import importlib
import os
import signal
from pathlib import Path

from harness.execution import flight_recorder
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.engine_traits import CUDA, VIRTUAL, EngineTraits
from harness.model.kernel_assembly import KernelAssembly
from harness.model.op import Op
from harness.model.paired_run import PairedRun, PairedRunRequest, Sketch
from harness.model.run import Completed, Raised, Refused, Run


class Calling:
    """Lets exceptions of the op escape, and puts its result into `seconds`."""

    traits = EngineTraits(name="calling")

    def __init__(self) -> None:
        self.device: DeviceProfile | None = None

    def prepare(self) -> None:
        assert self.device is None

    def emulate(self, device: DeviceProfile) -> None:
        self.device = device

    def obstacle(self) -> str:
        return ""

    def begin(self) -> str:
        return ""

    def run(self, op: Op, case: Case) -> Run:
        assert self.device == case.device
        result = op.call(**case.dims)
        if op.name == "answers_at_length":
            return Run(case=case, engine=self.traits.name, ending=Refused(message="x" * (result << 20)))
        return Run(case=case, engine=self.traits.name, ending=Completed(), seconds={"result": float(result)})

    def run_paired(self, op: Op, request: PairedRunRequest) -> Run:
        sketch = Sketch(name="y", shape=(), projections=(float(op.call(**request.case.dims)),))
        return PairedRun(case=request.case, engine=self.traits.name, ending=Completed(), sketches=(sketch,))


class Catching(Calling):
    """Makes an ending of what the op raises, as the engines of the harness do."""

    def run(self, op: Op, case: Case) -> Run:
        try:
            return super().run(op, case)
        except Exception as error:  # noqa: BLE001 — as an engine must
            ending = Raised(kind=type(error).__name__, message=str(error), source=None, phase="forward", traceback="")
            return Run(case=case, engine=self.traits.name, ending=ending)


class Waiting(Calling):
    """Reports that it is being prepared, and then waits for ever; another process does neither."""

    def prepare(self) -> None:
        try:
            Path(os.environ["MISCHIEF_FOLDER"], "once").touch(exist_ok=False)
        except FileExistsError:
            return
        with Path(os.environ["MISCHIEF_FIFO"]).open("w", encoding="ascii") as fifo:
            fifo.write("loading\n")
        signal.pause()


class OfParts(Calling):
    """Imports a module of the test's own."""

    def prepare(self) -> None:
        importlib.import_module("part_of_the_engine")


class Launching(Calling):
    """Calls the op within the launch of a kernel, on what passes for a virtual GPU."""

    traits = VIRTUAL

    def run(self, op: Op, case: Case) -> Run:
        with (
            flight_recorder.calling("spin_kernel", "BT: 64"),
            flight_recorder.launching("spin_kernel", (4, 1, 1), "num_warps: 4"),
        ):
            return super().run(op, case)


class Launched(Calling):
    """Calls the op after the launch of a kernel."""

    traits = VIRTUAL

    def run(self, op: Op, case: Case) -> Run:
        with flight_recorder.launching("spin_kernel", (4, 1, 1)):
            pass
        return super().run(op, case)


class Compiling(Calling):
    """Calls the op while a kernel is compiled."""

    def run(self, op: Op, case: Case) -> Run:
        with flight_recorder.calling("spin_kernel", ""), flight_recorder.compiling("spin_kernel"):
            return super().run(op, case)


class Reporting(Calling):
    """Reports, on the pipe that MISCHIEF_FIFO names, when it emulates a device."""

    def emulate(self, device: DeviceProfile) -> None:
        super().emulate(device)
        with Path(os.environ["MISCHIEF_FIFO"]).open("w", encoding="utf-8") as pipe:
            pipe.write("emulated\n")


class WithTorch(Calling):
    """Has torch and Triton loaded, as the virtual GPU has."""

    def emulate(self, device: DeviceProfile) -> None:
        super().emulate(device)
        __import__("torch")
        __import__("triton")


class Noting(Calling):
    """Calls nothing, and leaves a file for each case in the folder that MISCHIEF_FOLDER names."""

    traits = EngineTraits(name="noting")

    def run(self, op: Op, case: Case) -> Run:
        del op
        Path(os.environ["MISCHIEF_FOLDER"], case.digest).touch()
        return Run(case=case, engine=self.traits.name, ending=Completed())


class Assembling(Noting):
    """Leaves the name of the assembler too."""

    def assemble(self, assembly: KernelAssembly) -> None:
        Path(os.environ["MISCHIEF_FOLDER"], Path(assembly.ptxas).name).touch()


class Noticing(Calling):
    """Calls nothing, and reports if `Noting` had the case before; MISCHIEF_FOLDER as there."""

    traits = EngineTraits(name="noticing")

    def run(self, op: Op, case: Case) -> Run:
        del op
        was_there = Path(os.environ["MISCHIEF_FOLDER"], case.digest).exists()
        return Run(case=case, engine=self.traits.name, ending=Completed(), seconds={"result": float(was_there)})

    def assemble(self, assembly: KernelAssembly) -> None:
        assert Path(os.environ["MISCHIEF_FOLDER"], Path(assembly.ptxas).name).exists()


class OnHardware(Calling):
    """Passes for the engine on a hardware GPU."""

    traits = CUDA


class Moving(Catching):
    """Emulates a device for processes with other folders."""

    def __init__(self) -> None:
        super().__init__()
        self.moves = 0

    def move(self) -> None:
        self.moves += 1
