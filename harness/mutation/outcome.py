"""What becomes of a mutant."""

from dataclasses import dataclass
from enum import StrEnum

from harness.model.case import Case
from harness.mutation.mutants import Mutant


class Fate(StrEnum):
    """What a mutant came to."""

    KILLED = "killed"
    """An oracle noticed it, and again in a fresh process, in a case in which the unmutated library is silent."""
    SURVIVED = "survived"
    """No oracle noticed it, though other code ran."""
    SAME_CODE = "same code"
    """The compiler made the same code of it for every launch seen."""
    EQUIVALENT = "equivalent"
    """It survived, and a person has argued that it computes the same."""
    STILLBORN = "stillborn"
    """It does not compile."""


COUNTED = frozenset({Fate.KILLED, Fate.SURVIVED})
"""What the score is made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantOutcome:
    """One mutant and what the search found of it."""

    mutant: Mutant
    fate: Fate
    ops: tuple[str, ...]
    """The ids of those that were searched."""
    cases: int
    """That were judged until then."""
    seconds: float
    oracle: str = ""
    """That killed it: the first that says something."""
    also: tuple[str, ...] = ()
    """Others that say something of the same case."""
    said: str = ""
    """By the failure, or by the compiler."""
    case: Case | None = None
    """That killed it."""
    reached: bool = True
    """Whether any case executed the statement."""
    same_bits: bool = False
    """Whether every result of every case is the original's, bit for bit: a hint that it is equivalent, and no proof."""
    reason: str = ""
    """Why it survived, where somebody knows."""
