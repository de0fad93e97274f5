"""The verdict of a check: right, wrong by named flaws, or not checked."""

from dataclasses import dataclass
from enum import StrEnum

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
class CheckVerdict:
    """What a check found out about a candidate.  It is true in a condition if the candidate is right."""

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
    devices: tuple[str, ...] = ()
    dims: tuple[str, ...] = ()
    """The sizes of cases: `n128 (x.0): 1 to 2048`."""
    notes: tuple[str, ...] = ()
    """What was not checked, and what the candidate did that changed nothing."""
    largest: str = ""
    """The judged case with the most elements."""
    seed: int = 0
    seconds: float = 0.0

    def __bool__(self) -> bool:
        return self.ruling is Ruling.RIGHT
