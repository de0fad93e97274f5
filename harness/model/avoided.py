"""What a search avoided: draws that meet a failure rule, and ops of which no case completes."""

from dataclasses import dataclass, field

from harness.model.merging import TOTAL


@dataclass(frozen=True, slots=True, kw_only=True)
class AvoidedDraws:
    """Draws of one op that were dropped, because every known case like them had ended early."""

    op: str
    rule: str
    """What they have in common: `G > 1`."""
    cases: int = field(metadata=TOTAL)
    """Cases with it that ran."""
    failed: int = field(metadata=TOTAL)
    """How many of them ended early; fewer than `cases` if a later one refuted the rule."""
    dropped: int = field(metadata=TOTAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAsideOp:
    """An op that was set aside on one device, because no case of it completed there."""

    op: str
    device: str
    """The slug."""
    cases: int = field(metadata=TOTAL)
    """Cases that ran there."""
    completed: int = field(metadata=TOTAL)
    """Cases that completed later, after which the op got its turns again."""
    batches: int = field(metadata=TOTAL)
    """How many of its batches went to others."""
