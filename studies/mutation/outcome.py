"""The outcome of one mutant."""

from dataclasses import dataclass
from enum import StrEnum

from harness.model.case import Case
from studies.mutation.mutants import Mutant


class Fate(StrEnum):
    """The fate of a mutant."""

    KILLED = "killed"
    """An oracle noticed it twice, the second time in a fresh process, and the original library passes the case."""
    SURVIVED = "survived"
    """No oracle noticed it, although different code ran."""
    SAME_CODE = "same code"
    """It compiles to the same code as the original for every launch seen."""
    EQUIVALENT = "equivalent"
    """It survived, and a person explains why it computes the same."""
    STILLBORN = "stillborn"
    """It does not compile."""


COUNTED = frozenset({Fate.KILLED, Fate.SURVIVED})
"""The fates that count in the score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantOutcome:
    """One mutant and the result of its search."""

    mutant: Mutant
    fate: Fate
    ops: tuple[str, ...]
    """Ids of the ops that were searched."""
    cases: int
    """How many cases were checked."""
    seconds: float
    oracle: str = ""
    """The first oracle that failed."""
    other_oracles: tuple[str, ...] = ()
    """Other oracles that failed in the same case."""
    message: str = ""
    """The message of the failure or of the compiler."""
    case: Case | None = None
    """The case that killed it."""
    reached: bool = True
    """True if any case executed the changed statement."""
    same_bits: bool = False
    """True if all results of all cases equal the original's bit for bit: a hint, but no proof, of equivalence."""
    reason: str = ""
    """Why it survived, if a person has explained it."""
