"""Shrinking: make a failing case as simple as possible while its signature stays the same.

Two reducers work in turn.  Hypothesis draws the case's batch again, meets the failure, and shrinks the draws.  That
reaches far, but follows the order of the draws.  Then `harness.search.moves` changes one axis at a time until nothing
helps: no dim and no option of the result can then be simplified by itself.

`harness.search.sort_key` decides which case is simpler.  When a limit ends the work, the simplest case seen is kept.
"""

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache, partial

import hypothesis

from harness.errors import HarnessError
from harness.model.case import Case
from harness.model.verdict import Signature
from harness.search.campaign_statistics import Trial
from harness.search.moves import axes
from harness.search.problem import Problem
from harness.search.sort_key import sort_key

AsReady = Callable[[Iterable[Case]], Generator[Case]]
HYPOTHESIS_SHARE = 0.5
"""Hypothesis's share of the limits; the moves need the rest to finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkLimits:
    """How many runs and seconds one shrink may take, all turns together."""

    runs: int = 300
    seconds: float = 60.0


class Shrinking:
    """One shrink, done in turns, so that several shrinks share the time that is left.

    The first turn begins with Hypothesis.  Later turns go on with the moves.
    """

    def __init__(
        self,
        trial: Trial,
        signature: Signature,
        shows: Callable[[Case], bool],
        limits: ShrinkLimits,
        as_ready: AsReady | None = None,
    ) -> None:
        """`as_ready` yields cases in the order in which they are ready to run; None if all are ready at once.

        With it there are only moves: Hypothesis asks for one case at a time, so that no other could get ready.
        """
        self._problem = Problem(
            trial.case,
            shows,
            size=lambda case: sort_key(trial.op, case, trial.home_sm_count),
            identity=lambda case: case.digest,
        )
        self._as_ready = as_ready or _all_at_once
        self._draws = as_ready is None and trial.batch is not None
        self._trial = trial
        self._signature = signature
        self._limits = limits
        self._spent_s = 0.0
        self.is_complete = False
        """True if no move makes the case simpler."""

    @property
    def case(self) -> Case:
        """The simplest case so far."""
        return self._problem.best

    @property
    def runs(self) -> int:
        return self._problem.runs

    @property
    def is_finished(self) -> bool:
        """True if the case is as simple as it gets, or the limits are used up."""
        return self.is_complete or self.runs >= self._limits.runs or self._spent_s >= self._limits.seconds

    def turn(self, seconds: float) -> None:
        """Work for at most so many seconds, within the limits of the shrink."""
        begun = time.monotonic()
        seconds = min(seconds, self._limits.seconds - self._spent_s)
        if self._draws:
            self._draws = False
            self._problem.allow(
                runs=int(HYPOTHESIS_SHARE * self._limits.runs), until=begun + HYPOTHESIS_SHARE * seconds
            )
            _by_hypothesis(self._problem, self._trial, self._signature)
        self._problem.allow(runs=self._limits.runs, until=begun + seconds)
        self.is_complete = _by_moves(self._problem, self._trial, self._as_ready)
        self._spent_s += time.monotonic() - begun


def _by_hypothesis(problem: Problem[Case], trial: Trial, signature: Signature) -> None:
    assert trial.batch is not None
    bug = _exception_of(signature)
    has_met = False
    broken: HarnessError | None = None

    def body(case: Case) -> None:
        nonlocal has_met, broken
        has_met = has_met or case.digest == trial.case.digest
        shown = False
        if has_met:
            try:
                shown = problem.fails(case)
            except HarnessError as error:  # Hypothesis would take it for the bug and shrink it
                broken = error
                problem.allow(runs=0)  # known answers stay: otherwise Hypothesis would call its failing case flaky
        if shown:
            raise bug  # not inside `except`: Hypothesis counts an exception's context as part of its identity

    with suppress(bug):
        trial.batch.visit(body, phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink))
    if broken is not None:
        raise broken


def _by_moves(problem: Problem[Case], trial: Trial, as_ready: AsReady) -> bool:
    """Try the moves of each axis until a whole round changes nothing; return False if a limit came first."""
    while True:
        before = problem.best
        for axis in axes(trial.home_sm_count):
            while _takes_move(problem, partial(axis, trial.op), as_ready):
                pass  # `problem.best` is the simpler case now, and the axis starts again from it
        if problem.is_exhausted:
            return False
        if problem.best == before:
            return True


def _all_at_once(cases: Iterable[Case]) -> Generator[Case]:
    yield from cases


def _takes_move(problem: Problem[Case], moves_of: Callable[[Case], Iterator[Case]], as_ready: AsReady) -> bool:
    """Try the moves of one axis; return True as soon as one shows the failure."""
    if problem.is_exhausted:
        return False
    moves = filter(problem.is_worth_a_run, moves_of(problem.best))
    with closing(as_ready(moves)) as ready:
        return any(map(problem.fails, ready))


@cache
def _exception_of(signature: Signature) -> type[Exception]:
    """Return an exception class for each signature: Hypothesis identifies a bug by exception type and line."""
    return type("Shown", (Exception,), {"__doc__": str(signature)})
