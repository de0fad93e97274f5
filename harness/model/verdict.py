"""The verdict: what one oracle says of a case.

A verdict is pass, fail or abstain.  A failure carries what a finding needs: its signature, a severity, one message that
states what was promised, seen and where, and one sentence on what it means.
"""

from dataclasses import dataclass
from enum import StrEnum

from harness.model.picture import Picture
from harness.model.run import Source


class Severity(StrEnum):
    """How bad a finding is: a warning is benign as it stands, or depends on what hardware happens to leave behind."""

    WARNING = "warning"
    ERROR = "error"


class Outcome(StrEnum):
    """What all verdicts on one case come to."""

    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    ABSTAIN = "abstain"
    """The run shows too little to judge; never counted as a pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What makes two failures the same bug: coarse, so that it is stable on replay and while shrinking."""

    oracle: str
    severity: Severity
    op: str
    """Empty where a kernel is at fault: it is the same bug from whichever op the kernel is reached."""
    kernel: str
    """Empty where no single kernel is at fault."""
    place: str
    """Source line (`layernorm.py:431`), result name (`d:x`) or message class, whichever the oracle knows best."""

    def __post_init__(self) -> None:
        if self.kernel:
            object.__setattr__(self, "op", "")

    def __str__(self) -> str:
        where = " ".join(part for part in (self.kernel or self.op.rpartition(":")[2], self.place) if part)
        return f"{self.oracle}: {where}"


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
    """One line: what was seen, where: `dx[2, 0] was stored by programs 0 and 1 (layernorm.py:431)`."""
    meaning: str
    """One sentence for somebody who has not met this kind of bug."""
    source: Source | None = None
    pictures: tuple[Picture, ...] = ()
    """Where in which tensor, as far as the run says."""

    @property
    def oracle(self) -> str:
        """The oracle that says so."""
        return self.signature.oracle


Verdict = Pass | Abstain | Fail
