"""The specification of a worker: the device that it emulates, its suites, libraries and engine."""

from dataclasses import dataclass
from enum import StrEnum

from harness.cuda.sanitizers.instrumentation import Instrumenting
from harness.cuda.sanitizers.sanitizer_command import Sanitizing
from harness.model.device import DeviceProfile

GIB = 1024**3
VIRTUAL_GIB = 4
"""Memory for a case on the virtual GPU, in GiB."""
HARDWARE_GIB = 8
"""The same on a hardware GPU, where it holds the CUDA context too."""
LOAD_LIMIT_S = 180.0
BUILDS = "builds"
"""The folder under `WorkerSpec.scratch` in which engines leave TTIR for the background compiler."""


class Isolation(StrEnum):
    """The sharing of processes by cases."""

    WORKER = "worker"
    """A process takes case after case, and is replaced after anything odd."""
    CASE = "case"
    """Every case has a process of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZygoteSpec:
    """The part of a worker's specification without its device.  Workers with equal parts share a zygote."""

    engine: str
    scratch: str
    library_paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """Everything that workers of one kind share; equal specs share a fork server."""

    device: DeviceProfile
    suites: tuple[str, ...]
    """Suite files, by their names in cases."""
    scratch: str
    """A folder that workers may write to: Triton's cache, temporary files, and the case that is running."""
    project: str = ""
    """The folder to which relative names of suites refer."""
    library_paths: tuple[str, ...] = ()
    """Folders put in front of `sys.path`, in the workers only."""
    variant_paths: tuple[str, ...] = ()
    """Folders put in front of those later, so that workers with different ones can share a zygote."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables set before the device is emulated, such as the hardware GPU that the process sees."""
    sanitizing: Sanitizing | None = None
    """The tool of compute-sanitizer under which the processes run."""
    instrumenting: Instrumenting | None = None
    """Triton's own sanitizer, with which they compile kernels; `environment` turns it on."""
    engine: str = "harness.virtual.engine:VirtualEngine"
    """The factory of the `harness.ops.engine.Engine`, as `module:name`; called without arguments."""
    memory_limit_bytes: int = VIRTUAL_GIB * GIB
    """The memory that a worker may allocate beyond what its fork server holds after loading."""
    load_limit_s: float = LOAD_LIMIT_S
    """The limit for loading engine, suites and libraries."""

    @property
    def zygote(self) -> ZygoteSpec:
        """The part that does not depend on the device."""
        return ZygoteSpec(engine=self.engine, scratch=self.scratch, library_paths=self.library_paths)
