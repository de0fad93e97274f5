"""How long a case may take: no longer than the user allows, and little longer than others of its op took.

A case that hangs costs its whole limit.  So the limit follows what cases of the op took so far, far above it; and
whoever asks says how patient to be.
"""

import threading
from bisect import bisect_left, insort
from collections import deque
from dataclasses import replace
from enum import StrEnum

from harness.model.case import Case, Scale
from harness.model.run import Crashed, OutOfMemory, Overtime, Run, TimedOut

FLOOR_S = 5.0
"""No less: a kernel that is compiled for the first time, on a machine that has other work, takes seconds."""
FACTOR = 10.0
"""How many times as long as nearly all cases of the op one may take."""
QUANTILE = 0.95
FIRST = 5
"""So many cases of an op have the whole limit, until it is known how long they take."""
REMEMBERED = 200
LONGER = 3.0
"""How many times as long a case is given before it is called a hang."""
UNKNOWN_SHARE = 0.25
"""The share of the user's limit for a hurried case of an op of which nothing is known."""


class Patience(StrEnum):
    """How sure an answer has to be that a case hangs."""

    HURRIED = "hurried"
    """One try of many, as while a finding is made small: what hangs or is slow counts as hanging."""
    USUAL = "usual"
    """The first hang of its kind is given the user's whole limit; later ones like it are believed sooner."""
    LONG = "long"
    """Longer than the user's limit where need be, to tell slow from hung."""


Kind = tuple[str, str | None, str]
"""What makes two hangs alike: op, kernel, who waits."""


class _Took:
    """How many seconds the latest cases of one sort took."""

    def __init__(self) -> None:
        self.latest: deque[float] = deque()
        self._ascending: list[float] = []

    def add(self, seconds: float) -> None:
        self.latest.append(seconds)
        insort(self._ascending, seconds)
        if len(self.latest) > REMEMBERED:
            del self._ascending[bisect_left(self._ascending, self.latest.popleft())]

    def quantile(self, share: float) -> float:
        """0 where nothing is known."""
        count = len(self._ascending)
        return self._ascending[min(count - 1, int(share * count))] if count else 0.0


class TimeLimits:
    """What one pool knows of how long cases take.  Thread-safe."""

    def __init__(self, most_s: float, *, follows: bool = True) -> None:
        """`most_s` is what the user allows; where the limit does not follow what cases took, each has all of it."""
        self.most_s = most_s
        self._follows = follows
        self._took: dict[tuple[str, Scale], _Took] = {}
        self._believed: set[Kind] = set()
        self._lock = threading.Lock()

    def of(self, case: Case, patience: Patience) -> float:
        """How many seconds to wait for this case."""
        with self._lock:
            took = self._took.get(_sort(case), _Took())
            count, nearly_all_s, longest_s = len(took.latest), took.quantile(QUANTILE), took.quantile(1.0)
        usual_s = self._above(nearly_all_s) if self._follows and count >= FIRST else self.most_s
        match patience:
            case Patience.USUAL:
                return usual_s
            case Patience.LONG:
                return max(self.most_s, LONGER * usual_s)
            case Patience.HURRIED:
                known_s = self._above(longest_s) if count else max(FLOOR_S, UNKNOWN_SHARE * self.most_s)
                return min(usual_s, known_s)

    def note(self, run: Run, took_s: float) -> Run:
        """Learn from a run; the run, with its overtime if it came to its end past the user's limit."""
        if isinstance(run.ending, TimedOut | Crashed | OutOfMemory):
            return run
        with self._lock:
            self._took.setdefault(_sort(run.case), _Took()).add(took_s)
        late = took_s > self.most_s
        return replace(run, overtime=Overtime(limit_s=self.most_s, took_s=took_s)) if late else run

    def believes(self, run: Run) -> bool:
        """Whether a case that gave no answer may be called a hang as it is."""
        match run.ending:
            case TimedOut(limit_s=limit_s):
                with self._lock:
                    if limit_s >= self.most_s:
                        self._believed.add(_kind(run, run.ending))
                    return _kind(run, run.ending) in self._believed
            case _:
                return True

    def _above(self, took_s: float) -> float:
        return min(self.most_s, max(FLOOR_S, FACTOR * took_s))


def _sort(case: Case) -> tuple[str, Scale]:
    return case.op, case.scale


def _kind(run: Run, ending: TimedOut) -> Kind:
    return run.case.op, ending.launch, ending.waiting
