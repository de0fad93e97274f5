"""The verdict of one oracle on a case: pass, fail or abstain.

A failure has a signature with a severity, a message about what was seen and where, and an explanation of what it means.
"""

import hashlib
import re
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from harness.model.picture import Picture
from harness.model.run import Source


class Severity(StrEnum):
    """The severity of a finding.  A warning is benign as it stands, or depends on undefined behaviour of hardware."""

    WARNING = "warning"
    ERROR = "error"


class Extent(IntEnum):
    """How far a wrong number is off.  Failures of one signature may differ in it, and then have two reasons."""

    SLIGHT = 1
    """Beyond what rounding explains, though not by much."""
    LARGE = 2
    NOT_FINITE = 3
    """NaN or infinity, where a number is right."""


class Outcome(StrEnum):
    """The outcome of one case under all oracles."""

    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    ABSTAIN = "abstain"
    """The run shows too little to judge; never counted as a pass."""


GENERATED = re.compile(r"triton_[a-z]{3}_fused")
"""How the names of kernels begin that Inductor generates: programs share names, but not kernels."""
LINE = re.compile(r"(?<=\.py):\d+")
ORIGIN = "# from "
"""How the lines begin, at the top of a generated kernel's file, that name the program that it comes from."""


def stable_place(kernel: str, place: str) -> str:
    """Return the place as signatures have it.  The lines of a generated kernel differ between sizes and configs."""
    return LINE.sub("", place) if GENERATED.match(kernel) else place


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The identity of a bug: failures with equal signatures are the same bug.

    It is coarse, so that it stays the same on replay and while a case shrinks.
    """

    oracle: str
    severity: Severity
    op: str
    """As `Op.portable_id`.  Empty if a kernel is at fault: the bug is the same whichever op launches the kernel."""
    kernel: str
    """Empty if no single kernel is at fault."""
    place: str
    """A statement (`layernorm.py: tl.store(DW + cols, dw)`), the name of a result (`d:x`) or a class of messages.

    Without the source, a line (`layernorm.py:431`).
    """

    def __post_init__(self) -> None:
        if GENERATED.match(self.kernel):
            object.__setattr__(self, "place", stable_place(self.kernel, self.place))
        elif self.kernel:
            object.__setattr__(self, "op", "")

    @property
    def id(self) -> str:
        """Eight hex digits, the same for a bug on every machine, in every checkout and with every seed."""
        parts = (self.oracle, self.severity, self.op, self.kernel, self.place)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]

    def __str__(self) -> str:
        text = " ".join(part for part in (self.kernel or self.op.rpartition(":")[2], self.place) if part)
        return f"{self.oracle}: {text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """The promise was checked and kept."""

    oracle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Abstain:
    """The run shows too little to judge this promise; never counted as a pass."""

    oracle: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """The promise was broken."""

    signature: Signature
    message: str
    """One line with what was seen and where: `dx[2, 0] was stored by programs 0 and 1 (layernorm.py:431)`."""
    meaning: str
    """One sentence for readers who do not know this kind of bug."""
    source: Source | None = None
    pictures: tuple[Picture, ...] = ()
    """The cells of tensors at which the promise was broken, if the run has them."""
    argument: str = field(default="", compare=False)
    """The argument of the kernel through which memory was accessed; empty for other failures."""
    launch_index: int | None = field(default=None, compare=False)
    """The launch that failed, as an index into `Run.launches`; None if only its kernel is known, or nothing."""
    idiom: str = ""
    """A habit of code that many kernels share; failures of one oracle with one idiom are one finding."""
    extent: Extent | None = field(default=None, compare=False)
    """None for failures that are no wrong numbers."""

    @property
    def oracle(self) -> str:
        return self.signature.oracle

    def is_as_bad_as(self, other: "Fail") -> bool:
        """Return True unless this failure is milder than the other, or only one of them is NaN or infinity."""
        if self.signature.severity is Severity.WARNING and other.signature.severity is Severity.ERROR:
            return False
        if self.extent is None or other.extent is None:
            return True
        is_one_kind = (self.extent is Extent.NOT_FINITE) is (other.extent is Extent.NOT_FINITE)
        return is_one_kind and self.extent >= other.extent


Verdict = Pass | Abstain | Fail
