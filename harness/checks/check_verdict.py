"""The verdict of a check: right, wrong by named flaws, or not checked."""

from dataclasses import dataclass
from enum import StrEnum

from harness.documents.kinds import SCHEMA_VERSION, Kind
from harness.model.flaw_kind import FlawKind


class Ruling(StrEnum):
    """The conclusion of a check."""

    RIGHT = "right"
    WRONG = "wrong"
    UNCHECKED = "unchecked"
    """The cases show too little, or the candidate cannot be called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateFlaw:
    """One thing that is wrong with a candidate."""

    kind: FlawKind
    message: str
    case: str = ""
    """A case that shows it."""
    cases: int = 1
    """How many cases show it."""
    finding: str = ""
    """The id of the stored finding, for `harness replay`; empty if there is none."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchShare:
    """What one of torch's operators did in the candidate."""

    operator: str
    """Its name in torch's library of operators: `mm`, `convolution`."""
    share: float
    """Its arithmetic, relative to all that the reference does in the same pass."""
    is_backward: bool = False
    """True for the backward pass."""

    def __str__(self) -> str:
        return f"{self.operator}{' backward' * self.is_backward} {self.share:.0%}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckVerdict:
    """What a check found out about a candidate.  It is true in a condition if the candidate is right."""

    kind: Kind = Kind.VERDICT
    schema_version: int = SCHEMA_VERSION
    ruling: Ruling
    candidate: str
    reference: str
    flaws: tuple[CandidateFlaw, ...] = ()
    """The gravest first; empty unless the candidate is wrong."""
    reason: str = ""
    """Why nothing was checked; empty otherwise."""
    cases: int = 0
    passed: int = 0
    failed: int = 0
    abstained: int = 0
    """Cases that show nothing: candidate or reference refuses them, or the virtual GPU cannot execute them."""
    refereed: int = 0
    """Cases that the referee judged once more, in a process that never ran the candidate."""
    devices: tuple[str, ...] = ()
    dims: tuple[str, ...] = ()
    """The sizes of cases: `n128 (x.0): 1 to 2048`."""
    notes: tuple[str, ...] = ()
    """What was not checked, and what the candidate did that changed nothing."""
    largest: str = ""
    """The judged case with the most elements."""
    torch: tuple[TorchShare, ...] = ()
    """The arithmetic of torch's operators in that case, the largest share first; empty if kernels did everything."""
    seed: int = 0
    seconds: float = 0.0

    def __bool__(self) -> bool:
        return self.ruling is Ruling.RIGHT
