"""Assignment of hardware GPUs to the processes of a pool: healthy leased GPUs, each process on one at a time."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.engines.cuda.emulation import worker_environment
from harness.engines.cuda.gpus.assignment import Assignment, Quarantine
from harness.engines.cuda.gpus.inventory import VISIBLE, RealGpu
from harness.engines.cuda.gpus.xid_monitor import XidMonitor
from harness.workers.spec import WorkerSpec


class GpuAssigner:
    """A `GpuSource` that puts a GPU into the environment of a spec.  Thread-safe."""

    def __init__(
        self, gpus: Sequence[RealGpu], notify: Callable[[str], None], monitor: XidMonitor | None = None
    ) -> None:
        """`notify` is called once for each GPU that goes into quarantine."""
        self._assignment = Assignment(gpus, Quarantine(notify))
        self._monitor = monitor or XidMonitor(gpus)
        self._gpus = {gpu.uuid: gpu for gpu in gpus}
        self._environments = {gpu.uuid: worker_environment(gpu) for gpu in gpus}

    def take(self, spec: WorkerSpec) -> WorkerSpec:
        """The spec with a GPU of its own.

        Raises:
            GpuUnavailable: every GPU is in quarantine.
        """
        for sick, reason in self._monitor.sick():
            self._assignment.quarantine(sick, reason)
        gpu = self._assignment.take()
        return replace(spec, environment=(*spec.environment, *self._environments[gpu.uuid]))

    def give_back(self, spec: WorkerSpec) -> None:
        self._assignment.give_back(self._gpu_of(spec))

    def give_up(self, spec: WorkerSpec, reason: str) -> None:
        self._assignment.quarantine(self._gpu_of(spec), reason)

    def _gpu_of(self, spec: WorkerSpec) -> RealGpu:
        return self._gpus[dict(spec.environment)[VISIBLE]]
