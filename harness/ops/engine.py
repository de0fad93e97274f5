"""The seam behind which a case runs: on the virtual GPU or on a real one."""

from typing import Protocol

from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.model.paired_run import PairedRunRequest
from harness.model.run import Run


class Engine(Protocol):
    """A place where cases run; lives in a worker process and is told its device once."""

    @property
    def name(self) -> str:
        """`virtual` or `cuda`; stands in every run."""
        ...

    def prepare(self) -> None:
        """Load what all devices have in common; called once, before `wear`, in a process that others are forked from.

        Nothing may read the device yet.
        """
        ...

    def wear(self, device: DeviceProfile) -> None:
        """Make this process answer as if it ran on `device`; called once, before the library under test is imported."""
        ...

    def obstacle(self) -> str:
        """Why no worker can be forked from this process, once the libraries are imported; empty if nothing is wrong."""
        ...

    def begin(self) -> str:
        """Called once in each process that runs cases, before the first; says why none can run there, or nothing."""
        ...

    def run(self, op: Op, case: Case) -> Run:
        """Run one case.  What the library raises becomes the run's ending; an exception means a broken harness."""
        ...

    def run_beside(self, op: Op, wanted: PairedRunRequest) -> Run:
        """Run a case to be compared with another run of its op and nothing else: a companion, or a whole run."""
        ...
