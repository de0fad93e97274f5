"""What decides a worker: the device it wears, the suites it knows, the libraries and the engine it has."""

from dataclasses import dataclass
from enum import StrEnum

from harness.cuda.sanitizers.instrumentation import Instrumenting
from harness.cuda.sanitizers.sanitizer_command import Sanitizing
from harness.model.device import DeviceProfile

GIB = 1024**3
LOAD_LIMIT_S = 180.0
BUILDS = "builds"
"""The folder under `WorkerSpec.scratch` in which engines leave TTIR for the compiler beside the search."""


class Isolation(StrEnum):
    """How far cases are kept apart."""

    WORKER = "worker"
    """A process takes case after case, and is replaced after anything odd."""
    CASE = "case"
    """Every case has a process of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZygoteSpec:
    """What workers of all devices have in common; equal grounds share what is loaded before a device is worn."""

    engine: str
    scratch: str
    library_paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """Everything that workers of one kind share; equal specs share a fork server."""

    device: DeviceProfile
    suites: tuple[str, ...]
    """Suite files, as given on the command line."""
    scratch: str
    """A folder that workers may write to: Triton's cache, temporary files, and the case that is running."""
    library_paths: tuple[str, ...] = ()
    """Folders put in front of `sys.path`, in the workers only."""
    variant_paths: tuple[str, ...] = ()
    """Folders put in front of those when the device is worn: where workers differ that share a ground."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables set before the device is worn: which real GPU is seen, and what is read of it."""
    sanitizing: Sanitizing | None = None
    """The tool of compute-sanitizer that the processes run under, if any."""
    instrumenting: Instrumenting | None = None
    """The sanitizer of Triton's with which they compile kernels, if any; `environment` tells them."""
    engine: str = "harness.virtual.engine:VirtualEngine"
    """Module and name of what makes the `harness.ops.engine.Engine`, called without arguments."""
    memory_limit_bytes: int = 8 * GIB
    """What a worker may allocate beyond what its fork server holds when it is loaded."""
    load_limit_s: float = LOAD_LIMIT_S
    """How long engine, suites and libraries may take to load."""

    @property
    def ground(self) -> ZygoteSpec:
        """Its part that does not depend on the device."""
        return ZygoteSpec(engine=self.engine, scratch=self.scratch, library_paths=self.library_paths)
