"""Shrinking: make a failing case as simple as possible while its signature stays the same.

Two reducers work in turn.  Hypothesis draws the case's batch again, meets the failure, and shrinks the draws.  That
reaches far, but follows the order of the draws.  Then `harness.search.moves` changes one axis at a time until nothing
helps: no dim and no option of the result can then be simplified by itself.

`harness.search.sort_key` decides which case is simpler.  When a limit ends the work, the simplest case seen is kept.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import hypothesis

from harness.errors import HarnessError
from harness.model.case import Case
from harness.model.verdict import Signature
from harness.search.campaign_statistics import Trial
from harness.search.moves import AXES
from harness.search.sort_key import sort_key
from harness.search.strategies import Batch

HYPOTHESIS_SHARE = 0.5
"""Hypothesis's share of the limits; the moves need the rest to finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkLimits:
    """How many runs and seconds one shrink may take."""

    runs: int = 300
    seconds: float = 60.0

    def share(self, part: float) -> "ShrinkLimits":
        return ShrinkLimits(runs=int(self.runs * part), seconds=self.seconds * part)


NOTHING = ShrinkLimits(runs=0, seconds=0.0)
"""No further case runs.  Known answers stay: otherwise Hypothesis would call its failing case flaky."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The simplest case found."""

    case: Case
    runs: int
    complete: bool
    """False if a limit ended the work."""


def shrink(trial: Trial, signature: Signature, shows: Callable[[Case], bool], limits: ShrinkLimits) -> Shrunk:
    """Return the simplest case found for which `shows` is still true."""
    search = _Search(trial, shows)
    if trial.batch is not None:
        search.allow(limits.share(HYPOTHESIS_SHARE))
        _by_hypothesis(search, trial.case, trial.batch, signature)
    search.allow(limits)
    complete = _by_moves(search)
    return Shrunk(case=search.best, runs=search.runs, complete=complete)


class _Search:
    """The simplest case so far, and all answers, so that no case runs twice."""

    def __init__(self, trial: Trial, shows: Callable[[Case], bool]) -> None:
        self.best = trial.case
        self.op = trial.op
        self.home_sm_count = trial.home_sm_count
        self.runs = 0
        self._shows = shows
        self._answers = {trial.case.digest: True}
        self._begun = time.monotonic()
        self._limits = ShrinkLimits()

    def allow(self, limits: ShrinkLimits) -> None:
        """Set the limits, counted from the beginning of the shrink."""
        self._limits = limits

    @property
    def is_exhausted(self) -> bool:
        return self.runs >= self._limits.runs or time.monotonic() - self._begun >= self._limits.seconds

    def fails(self, case: Case) -> bool:
        """Return True if the case shows the failure; past the limits, a case that never ran counts as passing."""
        known = self._answers.get(case.digest)
        if known is not None:
            return known
        if self.is_exhausted:
            return False
        self.runs += 1
        shown = self._shows(case)
        self._answers[case.digest] = shown
        if shown and self.is_simpler(case):
            self.best = case
        return shown

    def is_simpler(self, case: Case) -> bool:
        return self._key(case) < self._key(self.best)

    def _key(self, case: Case) -> tuple[int, ...]:
        return sort_key(self.op, case, self.home_sm_count)


def _by_hypothesis(search: _Search, failing: Case, batch: Batch, signature: Signature) -> None:
    bug = _exception_of(signature)
    has_met = False
    broken: HarnessError | None = None

    def body(case: Case) -> None:
        nonlocal has_met, broken
        has_met = has_met or case.digest == failing.digest
        shown = False
        if has_met:
            try:
                shown = search.fails(case)
            except HarnessError as error:  # Hypothesis would take it for the bug and shrink it
                broken = error
                search.allow(NOTHING)
        if shown:
            raise bug  # not inside `except`: Hypothesis counts an exception's context as part of its identity

    with suppress(bug):
        batch.visit(body, phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink))
    if broken is not None:
        raise broken


def _by_moves(search: _Search) -> bool:
    """Try the moves of each axis until a whole round changes nothing; return False if a limit came first."""
    while True:
        before = search.best
        for axis in AXES:
            while any(
                search.is_simpler(move) and search.fails(move)
                for move in axis(search.op, search.best, search.home_sm_count)
            ):
                pass  # `search.best` is the simpler case now, and the axis starts again from it
        if search.is_exhausted:
            return False
        if search.best == before:
            return True


@cache
def _exception_of(signature: Signature) -> type[Exception]:
    """Return an exception class for each signature: Hypothesis identifies a bug by exception type and line."""
    return type("Shown", (Exception,), {"__doc__": str(signature)})
