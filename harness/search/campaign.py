"""A campaign: cases drawn in batches, run on all processes at once, judged as they come, every failure recorded.

It goes on after failures.  With a budget in cases, the same seed gives the same cases, whatever the timing: a batch is
drawn from what the batches before the previous one have shown, and waits for them; the previous one keeps the
processes busy meanwhile.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import itemgetter
from queue import Empty, SimpleQueue
from typing import Protocol

from harness.model.case import Case
from harness.model.companion import Companion, Wanted
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.model.run import Completed, Deadlocked, Refused, Run, Unsupported
from harness.model.verdict import Fail
from harness.oracles.endings import WATCHED
from harness.oracles.resources import Fits
from harness.search.hints import Hints
from harness.search.judging import Judge
from harness.search.kin import kin, twins
from harness.search.plainness import plainness
from harness.search.plan import BATCH_SIZE, CaseBudget, Plan, Slot, TimeBudget, slots
from harness.search.runner import Runner
from harness.search.strategies import scouts
from harness.search.tally import Tally, Trial
from harness.workers.lanes import KEEP_BUSY

BARREN = 3
"""An op that gives no new case in so many batches has none left."""
REMEMBERED = 16
"""So many earlier cases are tried before a failure that does not repeat alone."""
TICK_S = 0.5
TICK_BESIDE_S = 0.05
"""Where others go on beside, which have no other chance to look at what has come back for them."""
TWINS_AT_ONCE = 64
"""For each process that runs cases: enough for the second that it takes to draw a batch."""
NO_BATCH = -1
"""Of twins, kin, companions: what is drawn depends on the seed and on what was drawn, not on how many of them ran."""
MOST_KIN = 64
MOST_TWINS = 1024
FAMILIES = 512
"""The latest ones, so that kernels stay in caches."""


class Observer(Protocol):
    """Who watches a campaign; called on its thread, so it returns soon."""

    def tick(self, tally: Tally, trying: Case | None) -> None:
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
        self.tally = Tally()
        self._plan = plan
        self._runner = runner
        self._judge = judge
        self._observer = observer
        self._width = KEEP_BUSY * (processes + compilers)
        self._submit_twin = submit_twin or runner.submit
        self._twins = TWINS_AT_ONCE * processes if plan.kin else 0
        self._queue = _Queue(plan)
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

    def run(self, beside: Sequence["Campaign"] = ()) -> Tally:
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
        twins = sum(flight.is_twin for flight in self._flights.values())
        others = len(self._flights) - twins
        while others < self._width and not self._is_over() and (next_one := self._queue.take()):
            number, trial = next_one
            self._begin(trial, number, self._runner.submit(trial.case))
            others += 1
            filled = True
        while twins < self._twins and not self._is_over() and (twin := self._queue.take_twin()):
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
        """When time is up, nobody waits for cases that are still at the compiler."""
        for future, flight in list(self._flights.items()):
            if flight.run is None and future.cancel():
                del self._flights[future]

    def _land(self, future: Future[Run]) -> None:
        flight = self._flights.pop(future)
        flight.waiting.discard(future)
        run = future.result()
        if flight.run is None:
            flight.run = run
            self._submit_also(flight, self._judge.companions(flight.trial.op, run))
        else:
            flight.companions[run.case.digest] = run
            if isinstance(run, Companion) and _breaks_off(flight.trial.case, run):
                self._follow_up(flight.trial, run.case)
        if not flight.waiting:
            self._submit_also(flight, self._judge.doubtful(flight.run, flight.companions))
        if not flight.waiting:
            self._close(flight, flight.run)

    def _follow_up(self, trial: Trial, case: Case) -> None:
        """Have a companion that broke off run as a case of its own: beside another, it is only not compared."""
        if case.digest in self._followed or self._is_over():
            return
        self._followed.add(case.digest)
        self._begin(replace(trial, case=case, batch=None, followed=True), NO_BATCH, self._runner.submit(case))

    def _submit_also(self, flight: _Flight, more: Sequence[Wanted]) -> None:
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


def _breaks_off(case: Case, companion: Companion) -> bool:
    """Whether a companion of the case ended in a way that is to be judged by itself."""
    if isinstance(companion.ending, Deadlocked) and companion.case.order is not case.order:
        return False  # a GPU need not ever take that order: `order-invariance` warns of it, and it is no error
    is_another = companion.case.digest != case.digest
    return is_another and not isinstance(companion.ending, Completed | Refused | Unsupported)


_Family = tuple[Trial, Iterator[Case]]
"""A case that ran to its end, and those like it."""


class _Queue:
    """The cases to come.  Draws a batch when the one before the previous is judged, and never the same case twice."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._slots = slots(plan)
        self._ready: deque[tuple[int, Trial]] = deque()
        self._kin: deque[_Family] = deque(maxlen=FAMILIES)
        self._twins: deque[_Family] = deque(maxlen=FAMILIES)
        """Of what ran to its end: its kernels are compiled."""
        self._open: dict[int, int] = {}
        """By batch, how many of its cases are not judged yet."""
        self._shown: dict[int, dict[str, Hints]] = {}
        """By batch and op, what its runs showed."""
        self._seen: set[str] = set()
        self._seen_in_families: set[str] = set()
        self._barren: dict[tuple[str, str], int] = {}
        self._numbered = 0
        self._batches = 0

    def take(self) -> tuple[int, Trial] | None:
        """The next case and its batch; None if there is none, or none yet."""
        while not self._ready and self._may_draw():
            self._draw()
        if self._ready:
            return self._ready.popleft()
        of_family = self._next_of(self._kin)  # while the next batch waits for the verdicts that it is drawn from
        return of_family and (NO_BATCH, of_family)

    def take_twin(self) -> Trial | None:
        """A case that launches what is compiled; None if there is none left."""
        return self._next_of(self._twins)

    def _next_of(self, families: deque[_Family]) -> Trial | None:
        """A new case of each family in turn."""
        while families and not self._is_used_up():
            leader, cases = families.popleft()
            if (case := next(filter(self._is_new_in_family, cases), None)) is not None:
                families.append((leader, cases))
                self._numbered += 1
                return replace(leader, case=case, batch=None, number=self._numbered - 1)
        return None

    def judged(self, batch: int, trial: Trial, run: Run) -> None:
        """A case of this batch has its verdicts."""
        self._open[batch] -= 1
        shown = self._shown.setdefault(batch, {})
        shown[trial.op.id] = shown.get(trial.op.id, Hints()) | Hints.of(run)
        if self._plan.kin and isinstance(run.ending, Completed):
            self._kin.append((trial, kin(trial.op, trial.case, MOST_KIN)))
            self._twins.append((trial, twins(trial.op, trial.case, MOST_TWINS)))

    def _may_draw(self) -> bool:
        if self._is_used_up() or self._is_exhausted():
            return False
        return not any(left for batch, left in self._open.items() if batch <= self._known_batch())

    def _known_batch(self) -> int:
        """The last batch that the next one is drawn from: the scouts, then all but the one before it."""
        return max(self._batches - 2, 0)

    def _is_used_up(self) -> bool:
        budget = self._plan.budget
        return isinstance(budget, CaseBudget) and self._numbered >= budget.cases

    def _is_exhausted(self) -> bool:
        pairs = len(self._plan.ops) * len(self._plan.devices)
        return sum(barren >= BARREN for barren in self._barren.values()) == pairs

    def _draw(self) -> None:
        number = self._batches
        self._open[number] = 0
        trials = self._drawn(next(self._slots), self._known_batch()) if number else self._scouts()
        self._batches += 1
        for trial in trials:
            if self._is_used_up():
                return
            self._ready.append((number, replace(trial, number=self._numbered)))
            self._open[number] += 1
            self._numbered += 1

    def _scouts(self) -> Iterator[Trial]:
        for device in self._plan.devices:
            for op in self._plan.ops:
                for case in scouts(op, device):
                    if self._is_new(case):
                        yield Trial(number=0, op=op, case=case, batch=None, home_sm_count=device.sm_count)

    def _drawn(self, slot: Slot, known_batch: int) -> Iterator[Trial]:
        pair = (slot.op.id, slot.device.slug)
        if self._barren.get(pair, 0) >= BARREN:
            return
        homes = {device.slug: device.sm_count for device in self._plan.devices}
        batch = slot.batch(self._hints(slot.op, known_batch))
        fresh = list(islice(filter(self._is_new, batch.draw()), BATCH_SIZE))
        self._barren[pair] = 0 if fresh else self._barren.get(pair, 0) + 1
        for case in fresh:
            yield Trial(number=0, op=slot.op, case=case, batch=batch, home_sm_count=homes[slot.device.slug])

    def _hints(self, op: Op, known_batch: int) -> Hints:
        hints = Hints()
        for batch, shown in self._shown.items():
            if batch <= known_batch:
                hints |= shown.get(op.id, Hints())
        return hints

    def _is_new(self, case: Case) -> bool:
        """Whether no earlier case differs in the seed alone: Hypothesis likes such twins, and they teach little."""
        digest = replace(case, seed=0).digest
        if digest in self._seen:
            return False
        self._seen.add(digest)
        return True

    def _is_new_in_family(self, case: Case) -> bool:
        """Whether it is not the very case that ran before; of kin and twins the values count, and so does the seed."""
        digest = case.digest
        if digest in self._seen_in_families:
            return False
        self._seen_in_families.add(digest)
        return True
