"""A reduction problem: the simplest value so far that shows a failure, and every answer of the expensive test.

Whoever reduces cases or programs offers candidates.  The problem runs each at most once, within limits, and keeps the
simplest one that shows the failure.
"""

import sys
import time
from collections.abc import Callable
from math import inf
from typing import Generic, TypeVar

T = TypeVar("T")
Size = tuple[float, ...]
"""Less is simpler."""


class Problem(Generic[T]):
    """The simplest value so far, and all answers."""

    def __init__(
        self, value: T, shows: Callable[[T], bool], *, size: Callable[[T], Size], identity: Callable[[T], str]
    ) -> None:
        """`shows` is true of the value, and values of one `identity` have one answer."""
        self.best = value
        self.runs = 0
        self._shows = shows
        self._size = size
        self._identity = identity
        self._best_size = size(value)
        self._answers = {identity(value): True}
        self.allow()

    def allow(self, *, runs: int = sys.maxsize, until: float = inf) -> None:
        """Allow so many runs in all, until this moment of the monotonic clock."""
        self._most_runs, self._until = runs, until

    @property
    def is_exhausted(self) -> bool:
        return self.runs >= self._most_runs or time.monotonic() >= self._until

    def fails(self, value: T) -> bool:
        """Return True if the value shows the failure; past the limits, a value that never ran counts as passing."""
        if self._identity(value) not in self._answers and self.is_exhausted:
            return False
        shown = self._answer(value)
        if shown and self.is_simpler(value):
            self._keep(value)
        return shown

    def take(self, value: T) -> None:
        """Take the value in the place of the best if it shows the failure, whatever its size and the limits."""
        if self._answer(value):
            self._keep(value)

    def is_worth_a_run(self, value: T) -> bool:
        """Return True if the value is simpler than the simplest so far, and may show the failure."""
        return self.is_simpler(value) and self._answers.get(self._identity(value), True)

    def is_simpler(self, value: T) -> bool:
        return self._size(value) < self._best_size

    def _answer(self, value: T) -> bool:
        identity = self._identity(value)
        if identity not in self._answers:
            self.runs += 1
            self._answers[identity] = self._shows(value)
        return self._answers[identity]

    def _keep(self, value: T) -> None:
        self.best, self._best_size = value, self._size(value)
