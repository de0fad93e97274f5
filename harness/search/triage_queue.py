"""The queue of triage: all sightings share the processes and the time that is left.

All first turns come first, so every sighting is confirmed before any case is shrunk.  Later turns go round, and each
has a fair part of the time.
"""

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from harness.model.case import Case
from harness.model.finding import Finding
from harness.search.campaign_statistics import Sighting
from harness.search.deadline import Deadline
from harness.search.shrinking import ShrinkLimits
from harness.search.triage import Triage, Turns

TICK_S = 0.1
LEAST_TURN_S = 2.0
"""A shorter turn would mostly load kernels that the other turns have displaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageProgress:
    """How far triage has come."""

    sightings: int
    confirmed: int
    """Sightings that had their first turn, whether or not the failure repeated."""
    finished: int
    deadline: Deadline


class TriageObserver(Protocol):
    """Receives the progress of triage, on the thread that called `TriageQueue.run`."""

    def triaging(self, progress: TriageProgress, /) -> None:
        """Some time has passed, or a turn has ended."""
        ...

    def trying(self, case: Case, /) -> None:
        """This case runs now."""
        ...


@dataclass(slots=True, kw_only=True)
class _Work:
    """One sighting and the turns that are left of it."""

    sighting: Sighting
    turns: Turns
    has_begun: bool = False
    """True after its first turn."""


class TriageQueue:
    """Gives turns to sightings until all are finished or the deadline comes."""

    def __init__(self, triage_with: "TriageWith", processes: int, deadline: Deadline, limits: ShrinkLimits) -> None:
        self._triage = triage_with(self._try)
        self._latest: Case | None = None
        self._processes = processes
        self._deadline = deadline
        self._limits = limits
        self._waiting: deque[_Work] = deque()
        self._running: dict[Future[Finding | None], _Work] = {}
        self._confirmed = 0
        self._sightings = 0

    def run(self, sightings: list[Sighting], observer: TriageObserver, keep: "Keep") -> None:
        """Triage the sightings in this order.  `keep` receives each finding, and better versions of it later.

        Turns that run at the deadline are abandoned: they end when their process is closed.

        Raises:
            KeyboardInterrupt: the observer was interrupted.
            HarnessError: as `Runner.run`.
        """
        self._waiting.extend(_Work(sighting=one, turns=self._turns(one)) for one in sightings)
        self._sightings = len(sightings)
        with _threads(self._processes) as submit:
            while (self._waiting or self._running) and not self._deadline.is_over:
                while self._waiting and len(self._running) < self._processes:
                    work = self._waiting.popleft()
                    self._running[submit(work.turns)] = work
                done, _ = wait(self._running, timeout=TICK_S, return_when=FIRST_COMPLETED)
                for future in done:
                    self._end_turn(self._running.pop(future), future.result(), keep)
                self._report(observer)

    def _turns(self, sighting: Sighting) -> Turns:
        return self._triage.turns(sighting, self._limits, self._turn_s)

    def _turn_s(self) -> float:
        """Return the seconds of the next turn: an equal part for everything that is not finished."""
        unfinished = max(1, len(self._waiting) + len(self._running))
        return max(LEAST_TURN_S, self._deadline.left_s * self._processes / unfinished)

    def _end_turn(self, work: _Work, finding: Finding | None, keep: "Keep") -> None:
        self._confirmed += not work.has_begun
        work.has_begun = True
        if finding is not None:
            keep(work.sighting, finding)
            self._waiting.append(work)

    def _try(self, case: Case) -> None:
        self._latest = case  # read on another thread, which may miss some

    def _report(self, observer: TriageObserver) -> None:
        unfinished = len(self._waiting) + len(self._running)
        observer.triaging(
            TriageProgress(
                sightings=self._sightings,
                confirmed=self._confirmed,
                finished=self._sightings - unfinished,
                deadline=self._deadline,
            )
        )
        if self._latest is not None:
            observer.trying(self._latest)


TriageWith = Callable[[Callable[[Case], None]], Triage]
"""Makes a triage that calls the function with each case before it runs."""
Keep = Callable[[Sighting, Finding], None]
Submit = Callable[[Turns], Future[Finding | None]]


@contextmanager
def _threads(count: int) -> Generator[Submit]:
    """Threads that take turns.  Leaving the block does not wait for the turns that run."""
    with_threads = ThreadPoolExecutor(max_workers=count, thread_name_prefix="harness-triage")

    def submit(turns: Turns) -> Future[Finding | None]:
        return with_threads.submit(next, turns, None)

    try:
        yield submit
    finally:
        with_threads.shutdown(wait=False, cancel_futures=True)
