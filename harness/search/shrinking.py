"""Making a failing case small while its signature stays.

Two reducers in turn.  Hypothesis draws the batch again that the case came from, sees it fail, and shrinks it by its
own means, which reach far but follow the order of the draws.  Then plain moves along each axis (`harness.search.moves`)
until none helps, so that no dim and no option of the result can be made plainer by itself.
`harness.search.sort_key` decides what is plainer; the plainest case seen is kept whenever a limit ends the work.
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
from harness.search.sort_key import plainness
from harness.search.strategies import Batch

HYPOTHESIS_SHARE = 0.5
"""Of the limits: the plain moves need the rest to finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkLimits:
    """How much work one shrink may be."""

    runs: int = 300
    seconds: float = 60.0

    def share(self, part: float) -> "ShrinkLimits":
        """A part of both limits."""
        return ShrinkLimits(runs=int(self.runs * part), seconds=self.seconds * part)


NOTHING = ShrinkLimits(runs=0, seconds=0.0)
"""No further case runs; what is known stays known, or Hypothesis would find its failing case passing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The plainest case found, and whether the search for it came to its own end."""

    case: Case
    runs: int
    complete: bool


def shrink(trial: Trial, signature: Signature, shows: Callable[[Case], bool], limits: ShrinkLimits) -> Shrunk:
    """The plainest case that still shows the failure, from one that does."""
    search = _Search(trial, shows)
    if trial.batch is not None:
        search.allow(limits.share(HYPOTHESIS_SHARE))
        _by_hypothesis(search, trial.case, trial.batch, signature)
    search.allow(limits)
    complete = _by_moves(search)
    return Shrunk(case=search.best, runs=search.runs, complete=complete)


class _Search:
    """The plainest case so far, and every answer given, so that no case runs twice."""

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
        """Set how many runs, and seconds since the beginning, may have been used up from here on."""
        self._limits = limits

    @property
    def exhausted(self) -> bool:
        return self.runs >= self._limits.runs or time.monotonic() - self._begun >= self._limits.seconds

    def fails(self, case: Case) -> bool:
        """Whether the case shows the failure; past the limits, what was not tried counts as not showing it."""
        known = self._answers.get(case.digest)
        if known is not None:
            return known
        if self.exhausted:
            return False
        self.runs += 1
        shown = self._shows(case)
        self._answers[case.digest] = shown
        if shown and self.is_plainer(case):
            self.best = case
        return shown

    def is_plainer(self, case: Case) -> bool:
        return self._place(case) < self._place(self.best)

    def _place(self, case: Case) -> tuple[int, ...]:
        return plainness(self.op, case, self.home_sm_count)


def _by_hypothesis(search: _Search, failing: Case, batch: Batch, signature: Signature) -> None:
    bug = _exception_of(signature)
    met = False
    broken: HarnessError | None = None

    def body(case: Case) -> None:
        nonlocal met, broken
        met = met or case.digest == failing.digest
        shown = False
        if met:
            try:
                shown = search.fails(case)
            except HarnessError as error:  # Hypothesis would take it for the bug, and shrink that
                broken = error
                search.allow(NOTHING)
        if shown:
            raise bug  # outside any `except`, whose context would become part of the bug's identity

    with suppress(bug):
        batch.visit(body, phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink))
    if broken is not None:
        raise broken


def _by_moves(search: _Search) -> bool:
    """Moves along each axis until a whole round of them changes nothing; False if a limit came first."""
    while True:
        before = search.best
        for axis in AXES:
            while any(
                search.is_plainer(move) and search.fails(move)
                for move in axis(search.op, search.best, search.home_sm_count)
            ):
                pass  # the plainer case is `search.best` now, and the axis starts anew from it
        if search.exhausted:
            return False
        if search.best == before:
            return True


@cache
def _exception_of(signature: Signature) -> type[Exception]:
    """One class for each signature: Hypothesis takes a bug's exception type and line for its identity."""
    return type("Shown", (Exception,), {"__doc__": str(signature)})
