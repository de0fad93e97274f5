"""A campaign: cases drawn in batches, run on all processes at once, judged as they come, every failure recorded.

It goes on after failures.  With a budget in cases, the same seed gives the same cases, whatever the timing: a batch is
drawn from what the batches before the previous one have shown, and waits for them; the previous one keeps the
processes busy meanwhile.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from operator import itemgetter
from queue import Empty, SimpleQueue
from typing import Protocol

from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.paired_run import PairedRun, RunRequest
from harness.model.run import Completed, Deadlocked, Refused, Run, Unsupported
from harness.model.verdict import Fail
from harness.oracles.endings import WATCHED
from harness.oracles.resources import Fits
from harness.search.campaign_statistics import CampaignStatistics, Trial
from harness.search.case_queue import NO_BATCH, Queue
from harness.search.judge import Judge
from harness.search.plan import CaseBudget, Plan, TimeBudget
from harness.search.runner import Runner
from harness.search.sort_key import plainness
from harness.workers.dispatcher import KEEP_BUSY

REMEMBERED = 16
"""So many earlier cases are tried before a failure that does not repeat alone."""
TICK_S = 0.5
TICK_BESIDE_S = 0.05
"""Where others go on beside, which have no other chance to look at what has come back for them."""
TWINS_AT_ONCE = 64
"""For each process that runs cases: enough for the second that it takes to draw a batch.

So many companions of twins may wait beside: one of another config may have to be compiled for longer than a thousand
twins run.
"""


class Observer(Protocol):
    """Who watches a campaign; called on its thread, so it returns soon."""

    def tick(self, tally: CampaignStatistics, trying: Case | None) -> None:
        """Some time has passed or a case was judged."""
        ...

    def sighted(self, fail: Fail, trial: Trial) -> None:
        """A failure with a new signature was seen; it is neither confirmed nor small yet."""
        ...


@dataclass(slots=True, kw_only=True)
class _Flight:
    """One case between its submission and its verdicts."""

    trial: Trial
    batch: int
    waiting: set[Future[Run]]
    is_twin: bool = False
    is_in_doubt: bool = False
    """Whether what it still waits for decides if it is right, or what of it is wrong."""
    run: Run | None = None
    companions: dict[str, Run] = field(default_factory=dict[str, Run])


class Campaign:
    """One search; `tally` may be read at any time, also after an interrupt."""

    def __init__(  # noqa: PLR0913 - what it works with, and how much of it at once
        self,
        plan: Plan,
        runner: Runner,
        judge: Judge,
        observer: Observer,
        *,
        processes: int,
        compilers: int = 0,
        submit_twin: Callable[[Case], Future[Run]] | None = None,
    ) -> None:
        """`processes` run cases at once; `compilers` see them before.  `submit_twin` needs no compiler for a case."""
        self.tally = CampaignStatistics()
        self._plan = plan
        self._runner = runner
        self._judge = judge
        self._observer = observer
        self._width = KEEP_BUSY * (processes + compilers)
        self._submit_twin = submit_twin or runner.submit
        self._twins = TWINS_AT_ONCE * processes if plan.kin else 0
        self._queue = Queue(plan)
        self._flights: dict[Future[Run], _Flight] = {}
        self._came_back = SimpleQueue[Future[Run]]()
        self._trying: Case | None = None
        self._recent = dict[DeviceProfile, deque[Case]]()
        self._builds: dict[str, tuple[Trial, Run]] = {}
        self._followed: set[str] = set()
        """Companions that were run as cases of their own."""
        self._begun = time.monotonic()
        self._stopped = False
        self._error: Exception | None = None

    def stop(self) -> None:
        """Let `run` return now: for a watcher who has seen enough.  Cases on their way are dropped."""
        self._stopped = True

    def run(self, beside: Sequence["Campaign"] = ()) -> CampaignStatistics:
        """Use up the budget.  Leaves at a KeyboardInterrupt with whatever was counted until then.

        Those `beside` it go on meanwhile, and come to their end when they are run.
        """
        try:
            if self._error is not None:
                raise self._error
            while self._step(TICK_BESIDE_S if beside else TICK_S):
                for other in beside:
                    other.go_on()
            if not self._stopped:
                self._judge.resources.settle()
                self._judge_late_resources()
        finally:
            self.tally.seconds = time.monotonic() - self._begun
            for future in self._flights:
                future.cancel()
        return self.tally

    def go_on(self) -> None:
        """Judge what has come back, and submit more: what a campaign does that is not being run yet."""
        try:
            self._step(0.0)
        except Exception as error:  # noqa: BLE001 - whoever runs it is told, and not whoever runs another
            self._error = error

    def _step(self, wait_s: float) -> bool:
        """Submit, and wait for what comes back; false if there is nothing left to do."""
        if self._stopped or self._error is not None or not (self._fill() or self._flights):
            return False
        for future in self._landed(wait_s):
            if not self._stopped:
                self._land(future)
        if self._is_over():
            self._drop_what_has_not_begun()
        self.tally.seconds = time.monotonic() - self._begun
        self._observer.tick(self.tally, self._trying)
        return True

    def _landed(self, wait_s: float) -> list[Future[Run]]:
        """What has come back; waits a moment for it."""
        try:
            landed = [self._came_back.get(timeout=wait_s)]
        except Empty:
            return []
        landed += [self._came_back.get() for _ in range(self._came_back.qsize())]
        return [future for future in landed if future in self._flights]

    def _follow(self, future: Future[Run], flight: _Flight) -> None:
        self._flights[future] = flight
        future.add_done_callback(self._came_back.put)

    def _fill(self) -> bool:
        """Submit cases while there is room; true if any was."""
        filled = False
        of_twins = [flight for flight in self._flights.values() if flight.is_twin]
        others = len(self._flights) - len(of_twins)
        twins = sum(flight.run is None for flight in of_twins)
        may_have_companions = len(of_twins) - twins < self._twins
        while others < self._width and not self._is_over() and (next_one := self._queue.take()):
            number, trial = next_one
            self._begin(trial, number, self._runner.submit(trial.case))
            others += 1
            filled = True
        while twins < self._twins and not self._is_over():
            twin = self._queue.take_twin(may_be_sampled=may_have_companions)
            if twin is None:
                break
            self._begin(twin, NO_BATCH, self._submit_twin(twin.case), is_twin=True)
            twins += 1
            filled = True
        return filled

    def _begin(self, trial: Trial, batch: int, future: Future[Run], *, is_twin: bool = False) -> None:
        self._trying = trial.case
        recent = self._recent.setdefault(trial.case.device, deque(maxlen=REMEMBERED))
        trial = replace(trial, before=tuple(recent))
        self._follow(future, _Flight(trial=trial, batch=batch, waiting={future}, is_twin=is_twin))
        recent.append(trial.case)

    def _is_over(self) -> bool:
        match self._plan.budget:
            case CaseBudget():
                return False  # the queue ends by itself
            case TimeBudget(seconds=seconds):
                return time.monotonic() - self._begun >= seconds

    def _drop_what_has_not_begun(self) -> None:
        """When time is up, nobody waits for what is still at the compiler; cases are judged without such companions."""
        for future, flight in list(self._flights.items()):
            if flight.is_in_doubt or not future.cancel():
                continue
            del self._flights[future]
            flight.waiting.discard(future)
            if flight.run is not None:
                self._go_on_with(flight, flight.run)

    def _land(self, future: Future[Run]) -> None:
        flight = self._flights.pop(future)
        flight.waiting.discard(future)
        run = future.result()
        if flight.run is None:
            flight.run = run
            companions = self._judge.companions(flight.trial.op, run)
            flight.is_in_doubt = any(one.plainer is not None for one in companions)
            self._submit_also(flight, companions)
        else:
            flight.companions[run.case.digest] = run
            if isinstance(run, PairedRun) and _breaks_off(flight.trial.case, run):
                self._follow_up(flight.trial, run.case)
        self._go_on_with(flight, flight.run)

    def _go_on_with(self, flight: _Flight, run: Run) -> None:
        """Judge the run, if its companions are there, and what of them is to be run whole."""
        if not flight.waiting and (doubtful := self._judge.doubtful(run, flight.companions)):
            flight.is_in_doubt = True
            self._submit_also(flight, doubtful)
        if not flight.waiting:
            self._close(flight, run)

    def _follow_up(self, trial: Trial, case: Case) -> None:
        """Have a companion that broke off run as a case of its own: beside another, it is only not compared."""
        if case.digest in self._followed or self._is_over():
            return
        self._followed.add(case.digest)
        self._begin(replace(trial, case=case, batch=None, followed=True), NO_BATCH, self._runner.submit(case))

    def _submit_also(self, flight: _Flight, more: Sequence[RunRequest]) -> None:
        for wanted in more:
            future = self._runner.submit(wanted)
            flight.waiting.add(future)
            self._follow(future, flight)

    def _close(self, flight: _Flight, run: Run) -> None:
        examined = self._judge.judge(flight.trial.op, run, flight.companions)
        self.tally.count(examined)
        self._sight(flight.trial, examined.fails)
        if flight.batch != NO_BATCH:
            self._queue.judged(flight.batch, flight.trial, run)
        for launch in run.launches if run.engine in WATCHED else ():  # the others leave no TTIR to compile
            known = self._builds.get(launch.build)
            if known is None or flight.trial.turn < known[0].turn:
                self._builds[launch.build] = (flight.trial, run)

    def _sight(self, trial: Trial, fails: tuple[Fail, ...]) -> None:
        for fail in fails:
            if self.tally.sight(fail, trial, plainness(trial.op, trial.case, trial.home_sm_count)):
                self._observer.sighted(fail, trial)

    def _judge_late_resources(self) -> None:
        """Judge one run of each build again, now that the compiler is done: its figures often come after the run."""
        resources_only = self._judge.only(Fits.name)
        launches = {launch.build: launch for _, run in self._builds.values() for launch in run.launches}
        self.tally.builds = len(self._builds)
        known = (self._judge.resources.of(launches[build]) for build in self._builds)
        self.tally.compiled = sum(one is not None and not one.unknown for one in known)
        sighted = set(self.tally.sightings)
        runs = {trial.turn: (trial, run) for trial, run in self._builds.values()}
        for _, (trial, run) in sorted(runs.items(), key=itemgetter(0)):
            late = resources_only.judge(trial.op, run, {})
            self._sight(trial, tuple(fail for fail in late.fails if fail.signature not in sighted))


def _breaks_off(case: Case, companion: PairedRun) -> bool:
    """Whether a companion of the case ended in a way that is to be judged by itself."""
    if isinstance(companion.ending, Deadlocked) and companion.case.order is not case.order:
        return False  # a GPU need not ever take that order: `order-invariance` warns of it, and it is no error
    is_another = companion.case.digest != case.digest
    return is_another and not isinstance(companion.ending, Completed | Refused | Unsupported)
