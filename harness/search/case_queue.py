"""The cases to come: drawn in batches, each from what the batches before the previous one have shown.

It waits for those, and the previous one keeps the processes busy meanwhile.  Where a time is to be filled, cases that
launch what is compiled follow each case that ran.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import filterfalse, islice

from harness.model.case import Case
from harness.model.op import Op
from harness.model.paired_run import is_sampled
from harness.model.run import Completed, Run
from harness.search.campaign_statistics import Trial
from harness.search.launch_feedback import Hints
from harness.search.plan import BATCH_SIZE, BatchPlan, CaseBudget, Plan, slots
from harness.search.strategies import scouts
from harness.search.variants import kin, twins

BARREN = 3
"""An op that gives no new case in so many batches has none left."""
NO_BATCH = -1
"""Of twins, kin, companions: what is drawn depends on the seed and on what was drawn, not on how many of them ran."""
MOST_KIN = 64
MOST_TWINS = 1024
FAMILIES = 512
"""The latest ones, so that kernels stay in caches."""

Family = tuple[Trial, Iterator[Case]]
"""A case that ran to its end, and those like it."""


class Queue:
    """The cases to come.  Draws a batch when the one before the previous is judged, and never the same case twice."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._slots = slots(plan)
        self._ready: deque[tuple[int, Trial]] = deque()
        self._kin: deque[Family] = deque(maxlen=FAMILIES)
        self._twins: deque[Family] = deque(maxlen=FAMILIES)
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

    def take_twin(self, *, may_be_sampled: bool = True) -> Trial | None:
        """A case that launches what is compiled, as its companions need not; None if there is none left."""
        return self._next_of(self._twins, may_be_sampled=may_be_sampled)

    def _next_of(self, families: deque[Family], *, may_be_sampled: bool = True) -> Trial | None:
        """A new case of each family in turn; those that are sampled and may not be are gone."""
        while families and not self._is_used_up():
            leader, cases = families.popleft()
            fitting = cases if may_be_sampled else filterfalse(is_sampled, cases)
            if (case := next(filter(self._is_new_in_family, fitting), None)) is not None:
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

    def _drawn(self, slot: BatchPlan, known_batch: int) -> Iterator[Trial]:
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
