"""Shrinking: make a failing case as simple as possible while its signature stays the same.

Two reducers work in turn.  Hypothesis draws the case's batch again, meets the failure, and shrinks the draws.  That
reaches far, but follows the order of the draws.  Then `harness.search.moves` changes one axis at a time until nothing
helps: no dim and no option of the result can then be simplified by itself.

`harness.search.sort_key` decides which case is simpler.  When a limit ends the work, the simplest case seen is kept.
"""

import time
from collections.abc import Callable, Generator, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache

import hypothesis

from harness.errors import HarnessError
from harness.model.case import Case
from harness.model.verdict import Signature
from harness.search.campaign_statistics import Trial
from harness.search.moves import AXES, Axis
from harness.search.sort_key import sort_key
from harness.search.strategies import Batch

AsReady = Callable[[Iterable[Case]], Generator[Case]]
HYPOTHESIS_SHARE = 0.5
"""Hypothesis's share of the limits; the moves need the rest to finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkLimits:
    """How many runs and seconds one shrink may take, all turns together."""

    runs: int = 300
    seconds: float = 60.0


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
        self._search = _Search(trial, shows)
        self._as_ready = as_ready
        self._trial = trial
        self._signature = signature
        self._limits = limits
        self._spent_s = 0.0
        self._turns = 0
        self.is_complete = False
        """True if no move makes the case simpler."""

    @property
    def case(self) -> Case:
        """The simplest case so far."""
        return self._search.best

    @property
    def runs(self) -> int:
        return self._search.runs

    @property
    def is_finished(self) -> bool:
        """True if the case is as simple as it gets, or the limits are used up."""
        return self.is_complete or self.runs >= self._limits.runs or self._spent_s >= self._limits.seconds

    def turn(self, seconds: float) -> None:
        """Work for at most so many seconds, within the limits of the shrink."""
        begun = time.monotonic()
        seconds = min(seconds, self._limits.seconds - self._spent_s)
        if not self._turns and self._trial.batch is not None and self._as_ready is None:
            self._search.allow(int(HYPOTHESIS_SHARE * self._limits.runs), begun + HYPOTHESIS_SHARE * seconds)
            _by_hypothesis(self._search, self._trial.case, self._trial.batch, self._signature)
        self._search.allow(self._limits.runs, begun + seconds)
        self.is_complete = _by_moves(self._search, self._as_ready or _all_at_once)
        self._turns += 1
        self._spent_s += time.monotonic() - begun


class _Search:
    """The simplest case so far, and all answers, so that no case runs twice."""

    def __init__(self, trial: Trial, shows: Callable[[Case], bool]) -> None:
        self.best = trial.case
        self.op = trial.op
        self.home_sm_count = trial.home_sm_count
        self.runs = 0
        self._shows = shows
        self._answers = {trial.case.digest: True}
        self._most_runs = 0
        self._until = 0.0

    def allow(self, runs: int, until: float) -> None:
        """Allow so many runs in all, until this moment of the monotonic clock."""
        self._most_runs = runs
        self._until = until

    def stop(self) -> None:
        """Run no further case.  Known answers stay: otherwise Hypothesis would call its failing case flaky."""
        self.allow(0, 0.0)

    @property
    def is_exhausted(self) -> bool:
        return self.runs >= self._most_runs or time.monotonic() >= self._until

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

    def is_worth_a_run(self, case: Case) -> bool:
        """Return True if the case is simpler than the simplest so far, and may show the failure."""
        return self.is_simpler(case) and self._answers.get(case.digest, True)

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
                search.stop()
        if shown:
            raise bug  # not inside `except`: Hypothesis counts an exception's context as part of its identity

    with suppress(bug):
        batch.visit(body, phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink))
    if broken is not None:
        raise broken


def _by_moves(search: _Search, as_ready: AsReady) -> bool:
    """Try the moves of each axis until a whole round changes nothing; return False if a limit came first."""
    while True:
        before = search.best
        for axis in AXES:
            while _takes_move(search, axis, as_ready):
                pass  # `search.best` is the simpler case now, and the axis starts again from it
        if search.is_exhausted:
            return False
        if search.best == before:
            return True


def _all_at_once(cases: Iterable[Case]) -> Generator[Case]:
    yield from cases


def _takes_move(search: _Search, axis: Axis, as_ready: AsReady) -> bool:
    """Try the moves of one axis; return True as soon as one shows the failure."""
    if search.is_exhausted:
        return False
    moves = filter(search.is_worth_a_run, axis(search.op, search.best, search.home_sm_count))
    with closing(as_ready(moves)) as ready:
        return any(map(search.fails, ready))


@cache
def _exception_of(signature: Signature) -> type[Exception]:
    """Return an exception class for each signature: Hypothesis identifies a bug by exception type and line."""
    return type("Shown", (Exception,), {"__doc__": str(signature)})
