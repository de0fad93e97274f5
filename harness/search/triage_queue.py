"""The queue of triage: all sightings share the processes and the time that is left.

All first turns come first, so every sighting is confirmed before any case is shrunk.  Then sightings of one cause are
grouped, and only the head of each group goes on.  Later turns go round, and each has a fair part of the time.
"""

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from harness.model.case import Case
from harness.model.finding import Finding
from harness.search import cause_groups
from harness.search.campaign_statistics import Sighting
from harness.search.cause_groups import TriageWork
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


class TriageQueue:
    """Gives turns to sightings until all are finished or the deadline comes."""

    def __init__(self, triage_with: "TriageWith", processes: int, deadline: Deadline, limits: ShrinkLimits) -> None:
        self._triage = triage_with(self._try)
        self._latest: Case | None = None
        self._processes = processes
        self._deadline = deadline
        self._limits = limits
        self._works: list[TriageWork] = []
        self._waiting: deque[TriageWork] = deque()
        self._running: dict[Future[Finding | None], TriageWork] = {}
        self._confirmed = 0
        self._is_grouped = False
        self._sightings = 0

    def run(self, sightings: list[Sighting], observer: TriageObserver, keep: "Keep") -> None:
        """Triage the sightings in this order.  `keep` receives each finding, and better versions of it later.

        Turns that run at the deadline are abandoned: they end when their process is closed.

        Raises:
            KeyboardInterrupt: the observer was interrupted.
            HarnessError: as `Runner.run`.
        """
        self._works = [TriageWork(sighting=sighting, turns=self._turns(sighting)) for sighting in sightings]
        self._waiting.extend(self._works)
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
        if self._is_grouped:
            for work in [work for work in self._works if work.symptoms]:
                self._split(work, keep)
        else:
            self._group(keep)

    def _turns(self, sighting: Sighting) -> Turns:
        return self._triage.turns(sighting, self._limits, self._turn_s)

    def _turn_s(self) -> float:
        """Return the seconds of the next turn: an equal part for everything that is not finished."""
        unfinished = max(1, len(self._waiting) + len(self._running))
        return max(LEAST_TURN_S, self._deadline.left_s * self._processes / unfinished)

    def _end_turn(self, work: TriageWork, finding: Finding | None, keep: "Keep") -> None:
        self._confirmed += not work.has_begun
        work.has_begun = True
        if finding is None:
            self._split(work, keep)
        else:
            work.finding = finding
            self._keep(work, keep)
            if not work.is_symptom:
                self._waiting.append(work)
        if not self._is_grouped and self._confirmed == self._sightings:
            self._group(keep)

    def _group(self, keep: "Keep") -> None:
        """Let only the heads of groups go on."""
        self._is_grouped = True
        cause_groups.join(self._works, self._triage.examinations.get)
        for work in [work for work in self._works if work.symptoms]:
            # There may have been no time to confirm it.
            work.finding = work.finding or self._triage.unconfirmed(work.sighting)
            self._keep(work, keep)
        self._waiting = deque(work for work in self._waiting if not work.is_symptom)

    def _split(self, head: TriageWork, keep: "Keep") -> None:
        """Triage by itself what the smallest case of this head does not show."""
        if not head.symptoms:
            return
        heads = cause_groups.split(head, self._triage.examinations.get)
        for work in (head, *heads):
            self._keep(work, keep)
        running = tuple(self._running.values())
        self._waiting.extend(work for work in heads if work not in running)

    @staticmethod
    def _keep(work: TriageWork, keep: "Keep") -> None:
        finding = work.whole_finding
        if finding is not None and not work.is_symptom:
            keep(work.sighting, finding)

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
"""Keeps the finding of a sighting.  The findings that its symptoms had are to be dropped."""
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
