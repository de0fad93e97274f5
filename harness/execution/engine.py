"""The interface of engines, which run cases on the virtual GPU, on a hardware GPU, or on both."""

from typing import Protocol, runtime_checkable

from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.engine_traits import EngineTraits
from harness.model.kernel_assembly import KernelAssembly
from harness.model.op import Op
from harness.model.paired_run import PairedRunRequest
from harness.model.run import Run


class Engine(Protocol):
    """Runs cases in a worker process.  It emulates one device for the life of the process."""

    @property
    def traits(self) -> EngineTraits:
        """The name in runs, and what the engine can do."""
        ...

    def prepare(self) -> None:
        """Load what all devices have in common.

        Called once, before `emulate`, in a process from which others are forked.  Nothing may read the device yet.
        """
        ...

    def emulate(self, device: DeviceProfile) -> None:
        """Make this process emulate the device; called once, before the library under test is imported."""
        ...

    def obstacle(self) -> str:
        """Return why no worker can be forked from this process after the libraries' import; empty if workers can."""
        ...

    def begin(self) -> str:
        """Get ready to run cases; called once in each process that runs cases.

        Returns why no case can run there; empty if cases can.
        """
        ...

    def run(self, op: Op, case: Case) -> Run:
        """Run one case.  Exceptions of the library become the run's ending; any other is a bug of the harness."""
        ...

    def run_paired(self, op: Op, request: PairedRunRequest) -> Run:
        """Run a case only for the comparison with another run of its op.

        Returns a `PairedRun`, or a whole run.
        """
        ...


@runtime_checkable
class MovableEngine(Engine, Protocol):
    """An engine that can emulate a device in one process, and write to other folders in those forked from it."""

    def move(self) -> None:
        """Use the folders that the environment names now; called before the first case."""
        ...


@runtime_checkable
class AssemblingEngine(Engine, Protocol):
    """An engine that can assemble kernels in another way."""

    def assemble(self, assembly: KernelAssembly) -> None:
        """Assemble kernels this way from now on; called at most once in a process, before its only case."""
        ...
