"""Time limits of cases: no longer than the user allows, and little longer than others of the op took.

A case that hangs costs its whole limit.  So the limit adapts to how long cases of the op took so far, and stays far
above that.  Each request states how patient the pool is to be.
"""

import threading
from bisect import bisect_left, insort
from collections import deque
from dataclasses import replace
from enum import StrEnum

from harness.model.case import Case, Scale
from harness.model.run import STARVED, Crashed, OutOfMemory, Overtime, Run, TimedOut

FLOOR_S = 5.0
"""The least limit: a kernel that is compiled for the first time, on a busy machine, takes seconds."""
FACTOR = 10.0
"""How many times as long as nearly all cases of the op one may take."""
QUANTILE = 0.95
FIRST = 5
"""The number of cases of an op that have the whole limit, until it is known how long they take."""
REMEMBERED = 200
LONGER = 3.0
"""How many times as long a case is given before it is called a hang."""
UNKNOWN_SHARE = 0.25
"""The share of the user's limit for a hurried case of an op of which nothing is known."""


class Patience(StrEnum):
    """The certainty with which a case has to be called a hang."""

    HURRIED = "hurried"
    """One try of many, as while a finding is shrunk: a slow case counts as a hang."""
    USUAL = "usual"
    """The first hang of its kind is given the user's whole limit; later ones like it are believed sooner."""
    LONG = "long"
    """Longer than the user's limit if necessary, to tell slow from hung."""


HangKind = tuple[str, str | None, str]
"""What makes two hangs alike: op, kernel, hung party."""


class _Durations:
    """The seconds that the latest cases of one op and scale took."""

    def __init__(self) -> None:
        self.latest: deque[float] = deque()
        self._ascending: list[float] = []

    def add(self, seconds: float) -> None:
        self.latest.append(seconds)
        insort(self._ascending, seconds)
        if len(self.latest) > REMEMBERED:
            del self._ascending[bisect_left(self._ascending, self.latest.popleft())]

    def quantile(self, share: float) -> float:
        """0 if nothing is known."""
        count = len(self._ascending)
        return self._ascending[min(count - 1, int(share * count))] if count else 0.0


class TimeLimits:
    """The limits of one pool.  Thread-safe."""

    def __init__(self, most_s: float, *, adapts: bool = True) -> None:
        """`most_s` is what the user allows.  If the limit does not adapt, each case has all of it."""
        self.most_s = most_s
        self._adapts = adapts
        self._durations: dict[tuple[str, Scale], _Durations] = {}
        self._believed: set[HangKind] = set()
        self._lock = threading.Lock()

    def of(self, case: Case, patience: Patience) -> float:
        """The limit of this case in seconds."""
        with self._lock:
            durations = self._durations.get(_op_and_scale(case), _Durations())
            count, nearly_all_s, longest_s = (
                len(durations.latest),
                durations.quantile(QUANTILE),
                durations.quantile(1.0),
            )
        usual_s = self._above(nearly_all_s) if self._adapts and count >= FIRST else self.most_s
        match patience:
            case Patience.USUAL:
                return usual_s
            case Patience.LONG:
                return max(self.most_s, LONGER * usual_s)
            case Patience.HURRIED:
                known_s = self._above(longest_s) if count else max(FLOOR_S, UNKNOWN_SHARE * self.most_s)
                return min(usual_s, known_s)

    def record(self, run: Run, took_s: float) -> Run:
        """Learn from a run.  Returns it, with its overtime if it ended past the user's limit."""
        if isinstance(run.ending, TimedOut | Crashed | OutOfMemory):
            return run
        with self._lock:
            self._durations.setdefault(_op_and_scale(run.case), _Durations()).add(took_s)
        own_s = took_s - run.seconds.get(STARVED, 0.0)
        is_late = own_s > self.most_s
        return replace(run, overtime=Overtime(limit_s=self.most_s, took_s=own_s)) if is_late else run

    def believes(self, run: Run) -> bool:
        """False if the case gave no answer and must have more time before it is called a hang."""
        match run.ending:
            case TimedOut(limit_s=limit_s):
                with self._lock:
                    if limit_s >= self.most_s:
                        self._believed.add(_hang_kind(run, run.ending))
                    return _hang_kind(run, run.ending) in self._believed
            case _:
                return True

    def _above(self, took_s: float) -> float:
        return min(self.most_s, max(FLOOR_S, FACTOR * took_s))


def _op_and_scale(case: Case) -> tuple[str, Scale]:
    return case.op, case.scale


def _hang_kind(run: Run, ending: TimedOut) -> HangKind:
    return run.case.op, ending.launch, ending.waiting
