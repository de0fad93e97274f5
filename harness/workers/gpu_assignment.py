"""Real GPUs for a pool's processes: which of the leased ones each gets, and which are out of use."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.cuda.emulation import environment_of
from harness.cuda.gpus.assignment import Assignment
from harness.cuda.gpus.inventory import VISIBLE, RealGpu
from harness.cuda.gpus.quarantine import Quarantine
from harness.cuda.gpus.xid_monitor import XidMonitor
from harness.workers.spec import WorkerSpec


class GpuAssigner:
    """Gives specs the environment of a GPU; thread-safe.  `say` is told once of each GPU that is given up."""

    def __init__(self, gpus: Sequence[RealGpu], say: Callable[[str], None], vigil: XidMonitor | None = None) -> None:
        self._assignment = Assignment(gpus, Quarantine(say))
        self._vigil = vigil or XidMonitor(gpus)
        self._gpus = {gpu.uuid: gpu for gpu in gpus}
        self._environments = {gpu.uuid: environment_of(gpu) for gpu in gpus}

    def take(self, spec: WorkerSpec) -> WorkerSpec:
        """The spec with a GPU of its own.

        Raises:
            GpuUnavailable: every one is in quarantine.
        """
        for sick, reason in self._vigil.sick():
            self._assignment.quarantine(sick, reason)
        gpu = self._assignment.take()
        return replace(spec, environment=(*spec.environment, *self._environments[gpu.uuid]))

    def give_back(self, spec: WorkerSpec) -> None:
        """What was taken is not in use any more."""
        self._assignment.give_back(self._gpu_of(spec))

    def give_up(self, spec: WorkerSpec, reason: str) -> None:
        """The GPU of what was taken is sick: no case goes there any more."""
        self._assignment.quarantine(self._gpu_of(spec), reason)

    def _gpu_of(self, spec: WorkerSpec) -> RealGpu:
        return self._gpus[dict(spec.environment)[VISIBLE]]
