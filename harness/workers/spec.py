"""The specification of a worker: the device that it emulates, its suites, libraries and engine."""

from dataclasses import dataclass, replace
from enum import StrEnum

from harness.engines.cuda.sanitizers.instrumentation import Instrumenting
from harness.engines.cuda.sanitizers.sanitizer_command import Sanitizing
from harness.model.device import DeviceProfile
from harness.model.engine_traits import VIRTUAL

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
    """Folders put in front of those: the suites' own, or a mutated library."""
    unset: tuple[str, ...] = ()
    """Variables removed before `environment` is set, so that a user's shell does not decide what a case does."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables set before the device is emulated: the hardware GPU that the process sees, and those of cases."""
    sanitizing: Sanitizing | None = None
    """The tool of compute-sanitizer under which the processes run."""
    instrumenting: Instrumenting | None = None
    """Triton's own sanitizer, with which they compile kernels; `environment` turns it on."""
    engine: str = VIRTUAL.factory
    """The factory of the `harness.execution.engine.Engine`, as `module:name`; called without arguments."""
    memory_limit_bytes: int = VIRTUAL_GIB * GIB
    """The memory that a worker may allocate beyond what its fork server holds after loading."""
    load_limit_s: float = LOAD_LIMIT_S
    """The limit for loading engine, suites and libraries."""
    confined_to: tuple[str, ...] = ()
    """Folders to which alone the processes may write, for they run code that nobody trusts; caches are in the first.
    Empty: they are not confined."""
    shows_output: bool = False
    """True: what workers print appears on the parent's standard output, as it is printed."""

    def in_environment(self, environment: tuple[tuple[str, str], ...]) -> "WorkerSpec":
        """Return the specification with more variables: those of a case."""
        return replace(self, environment=(*self.environment, *environment)) if environment else self
