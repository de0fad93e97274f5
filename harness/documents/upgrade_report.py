"""The document of an upgrade: what each kernel of the suites is with another Triton."""

from dataclasses import dataclass
from enum import StrEnum

from harness.documents.kinds import SCHEMA_VERSION, Kind
from harness.model.ending import Source
from harness.model.launch_difference import Difference


class UpgradeVerdict(StrEnum):
    """What the upgrade means for one kernel, from harmless to not possible.  The worst that was seen counts."""

    SAME_CODE = "same-code"
    """Every build has the same PTX, but for names of registers and lines of debuggers."""
    SAME_TTIR = "same-ttir"
    """Builds have other PTX from the same TTIR, and the engine ran the TTIR: their values are not compared."""
    SAME_BITS = "same-bits"
    """The code differs, and every launch leaves the same bytes."""
    ROUNDING = "rounding"
    """Launches leave other bytes, as far apart as rounding explains."""
    NEEDS_MORE = "needs-more"
    """A build needs more shared, scratch or local memory, or registers that leave room for fewer programs on an SM."""
    NEW_IS_RIGHT = "new-is-right"
    """Rounding does not explain a difference, and only the new release agrees with the op's definition."""
    NOT_COMPARED = "not-compared"
    """Only one release launches or compiles it, or no launch of differing code could be compared."""
    DIFFERENT = "different"
    """Rounding does not explain a difference."""
    FAILS = "fails"
    """A build compiles no more, or fits the GPU no more."""
    REMOVED = "removed-api"
    """It uses a name that the new release no longer has."""


class Right(StrEnum):
    """Which release agrees with the op's definition, by exact arithmetic where that follows the case."""

    NEW = "the new one is right"
    OLD = "the old one is right"
    BOTH = "both agree with the definition"
    NEITHER = "neither agrees with the definition"
    UNKNOWN = "which is right is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A figure of one build that is larger with the new release."""

    figure: str
    """`shared bytes`, `registers`, `local bytes`, `scratch bytes`."""
    config: str
    device: str
    before: int
    now: int
    costs_programs: bool = False
    """True if fewer programs fit on an SM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFailure:
    """A build that only the old release makes."""

    config: str
    device: str
    message: str
    removed: str = ""
    """The name of Triton that is gone: `triton.language.make_block_ptr`."""
    source: Source | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueDifference:
    """One argument that a launch leaves otherwise, although it began with the same bytes."""

    case: str
    difference: Difference
    right: Right
    why: str = ""
    """What a release that is wrong has: the message of the oracle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelUpgrade:
    """One kernel of a suite, with all its builds and launches."""

    kernel: str
    suite: str
    source: Source | None
    verdict: UpgradeVerdict
    builds: int
    """Configs on devices that both releases compile."""
    same_code: int
    same_ttir: int
    launches: int
    """Launches from the same bytes with both."""
    equal_launches: int
    """Those that left the same bytes."""
    more_registers: int = 0
    """Builds with more registers, whether or not it matters."""
    growths: tuple[Growth, ...] = ()
    failures: tuple[BuildFailure, ...] = ()
    differences: tuple[ValueDifference, ...] = ()
    """Beyond rounding."""
    farthest: Difference | None = None
    """The largest difference that rounding explains."""
    not_compared: tuple[str, ...] = ()
    """Why, each reason once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherEnding:
    """A case that ends otherwise with the new release."""

    case: str
    old: str
    """Empty if it completed."""
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadableSuite:
    """A suite that cannot be loaded with one of the releases, mostly for its library fails on import."""

    suite: str
    old: str
    """Why; empty if it is loaded."""
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeReport:
    """Everything that `harness upgrade` finds."""

    kind: Kind = Kind.UPGRADE
    schema_version: int = SCHEMA_VERSION
    package: str = "triton"
    old: str
    """The version; with the text of the command line if that is a file or folder."""
    new: str
    libraries: tuple[str, ...]
    suites: tuple[str, ...]
    devices: tuple[str, ...]
    engine: str
    cases: int
    """Cases that ran with both."""
    kernels: tuple[KernelUpgrade, ...]
    unloadable: tuple[UnloadableSuite, ...] = ()
    endings: tuple[OtherEnding, ...] = ()
    seconds: float

    @property
    def worse_endings(self) -> tuple[OtherEnding, ...]:
        """Cases that complete with the old release alone."""
        return tuple(ending for ending in self.endings if ending.new and not ending.old)

    @property
    def worse_suites(self) -> tuple[UnloadableSuite, ...]:
        """Suites that only the old release loads."""
        return tuple(each for each in self.unloadable if each.new and not each.old)

    def count(self, verdict: UpgradeVerdict) -> int:
        return sum(kernel.verdict is verdict for kernel in self.kernels)
