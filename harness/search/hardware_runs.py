"""The repeats of one case, on the hardware GPU and on the virtual one, that show who is at fault for a failure."""

from dataclasses import dataclass, replace

from harness.model.case import Case
from harness.model.kernel_assembly import KernelAssembly
from harness.model.op import Op
from harness.model.paired_run import RunRequest, rebuilt
from harness.model.run import Run
from harness.search.judge import Examination, Judge
from harness.search.runner import NoResources, Runner
from harness.workers.supervision.time_limits import Patience


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareRuns:
    """Repeats a case alone in fresh processes: `harness.search.hardware_blamer.CaseRuns`."""

    hardware: Runner
    virtual: Runner
    judge: Judge
    oracle: str
    """The oracle that failed, which alone judges repeats on hardware."""
    op: Op
    case: Case

    def as_it_is(self) -> Examination:
        return self._on_hardware(None)

    def assembled(self, assembly: KernelAssembly) -> Examination:
        """Repeat it on the hardware GPU with kernels assembled in another way."""
        return self._on_hardware(assembly)

    def on_virtual_gpu(self) -> Examination:
        """Repeat it on the virtual GPU, under all oracles."""
        return replace(self.judge, resources=NoResources()).examine(self.op, self.case, self.virtual.run_alone)

    def _on_hardware(self, assembly: KernelAssembly | None) -> Examination:
        def execute(request: RunRequest) -> Run:
            wanted = request if assembly is None else rebuilt(request, assembly)
            return self.hardware.run_alone(wanted, patience=Patience.LONG)

        return self.judge.only(self.oracle).examine(self.op, self.case, execute)
