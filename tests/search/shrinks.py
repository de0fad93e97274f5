"""A whole shrink in one turn."""

from collections.abc import Callable
from dataclasses import dataclass

from harness.model.case import Case
from harness.model.verdict import Signature
from harness.search.campaign_statistics import Trial
from harness.search.shrinking import Shrinking, ShrinkLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The simplest case found."""

    case: Case
    runs: int
    complete: bool
    """False if a limit ended the work."""


def shrink(trial: Trial, signature: Signature, shows: Callable[[Case], bool], limits: ShrinkLimits) -> Shrunk:
    """Return the simplest case found for which `shows` is still true."""
    shrinking = Shrinking(trial, signature, shows, limits)
    shrinking.turn(limits.seconds)
    return Shrunk(case=shrinking.case, runs=shrinking.runs, complete=shrinking.is_complete)
