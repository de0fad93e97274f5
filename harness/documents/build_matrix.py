"""The document of a matrix: every kernel and config on every GPU, and the compiler's facts about each build."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.documents.kinds import SCHEMA_VERSION, Kind
from harness.model.device import DeviceProfile
from harness.model.kernel_build import BuildFacts, BuildRequest, CollectedKernel


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """A kernel on one device; its builds are those for the device's own target."""

    device: str
    """The slug."""
    kernel: CollectedKernel


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledBuild:
    """One build, which several rows may share."""

    request: BuildRequest
    facts: BuildFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedCase:
    """A case that did not complete: kernels after its end are not in the matrix."""

    op: str
    device: str
    case: str
    ending: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixCost:
    """CPU time in seconds, of this process and its children."""

    whole_s: float = 0.0
    compiler_s: float = 0.0
    """Inside the compiler, for the builds that were compiled this time."""
    compiled: int = 0
    """How many builds; the others were in the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildMatrix:
    """Everything that `harness matrix` finds."""

    kind: Kind = Kind.MATRIX
    schema_version: int = SCHEMA_VERSION
    libraries: tuple[str, ...]
    """As `--with` names them."""
    versions: Mapping[str, str]
    suites: tuple[str, ...]
    devices: tuple[DeviceProfile, ...]
    rows: tuple[MatrixRow, ...]
    builds: tuple[CompiledBuild, ...]
    unfinished: tuple[UnfinishedCase, ...] = ()
    cost: MatrixCost = field(default_factory=MatrixCost)
