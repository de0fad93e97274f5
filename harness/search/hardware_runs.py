"""The repeats of one case, on the hardware GPU and on the virtual one, that show who is at fault for a failure."""

from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock, Thread

from harness.engines.cuda.gpus.inventory import RealGpu
from harness.engines.triton.assemblers import find_assemblers
from harness.errors import HarnessError, WorkerError
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.hardware_blame import HardwareBlame
from harness.model.kernel_assembly import KernelAssembly
from harness.model.op import Op
from harness.model.paired_run import RunRequest, rebuilt
from harness.model.run import Run
from harness.model.verdict import Fail, Signature
from harness.search.hardware_blamer import HardwareBlamer
from harness.search.judge import Examination, Judge
from harness.search.runner import NoResources, Runner
from harness.workers.pool import Pool
from harness.workers.supervision.time_limits import Patience

PAIRED_AT_ONCE = 4
"""Paired runs on the virtual GPU, each in a process of its own, as far as its pool has so many."""
FIRST_WITH_A = 90
"""Triton compiles for `sm_90a` and its like from this architecture on."""


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
        judge = replace(self.judge, resources=NoResources())
        return judge.examine(self.op, self.case, self.virtual.run_alone, at_once=PAIRED_AT_ONCE)

    def _on_hardware(self, assembly: KernelAssembly | None) -> Examination:
        def execute(request: RunRequest) -> Run:
            wanted = request if assembly is None else rebuilt(request, assembly)
            return self.hardware.run_alone(wanted, patience=Patience.LONG)

        return self.judge.only(self.oracle).examine(self.op, self.case, execute)


class HardwareBlaming:
    """Blames someone for each failure of a search on hardware GPUs.  Owns the processes of the virtual GPU for that."""

    def __init__(self, hardware: Runner, new_virtual: Callable[[], Pool], judge: Judge, gpu: RealGpu) -> None:
        """`new_virtual` is called when the first failure is confirmed."""
        self._hardware = hardware
        self._new_virtual = new_virtual
        self._judge = judge
        target = f"sm_{gpu.arch}{'a' if gpu.arch >= FIRST_WITH_A else ''}"
        self._blamer = HardwareBlamer(assemblers=find_assemblers(gpu.capability), target=target)
        self._lock = Lock()
        self._virtual: Pool | None = None
        self._is_closed = False
        self._claimed: dict[str, Signature] = {}
        self._prepared: set[DeviceProfile] = set()

    def blames(self, fail: Fail, op: Op, confirmed: Examination) -> Generator[HardwareBlame]:
        """Yield who is at fault for a failure that a run alone has just confirmed, and then more about it."""
        runs = HardwareRuns(
            hardware=self._hardware,
            virtual=self._virtual_gpu(),
            judge=self._judge,
            oracle=fail.oracle,
            op=op,
            case=confirmed.run.case,
        )
        yield from self._blamer.blames(fail, confirmed, runs)

    def prepare(self, device: DeviceProfile) -> None:
        """Load the virtual GPU's side for this device in the background, before a failure is confirmed."""
        with self._lock:
            if device in self._prepared:
                return
            self._prepared.add(device)

        def load() -> None:
            with suppress(HarnessError):  # the first repeat meets it again
                self._virtual_gpu().prepare(device)

        Thread(target=load, daemon=True, name="harness-virtual").start()

    def claims(self, cause: str, signature: Signature) -> bool:
        """Return True if no other signature has claimed this cause."""
        with self._lock:
            return self._claimed.setdefault(cause, signature) == signature

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            self._is_closed = True
        if self._virtual is not None:
            self._virtual.close()

    def _virtual_gpu(self) -> Pool:
        with self._lock:
            if self._is_closed:
                raise WorkerError("the session is closed")
            self._virtual = self._virtual or self._new_virtual()
            return self._virtual
