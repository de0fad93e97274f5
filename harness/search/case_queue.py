"""The queue of a campaign: cases drawn in batches, and variants of cases that completed.

A batch is drawn from the launch feedback of all batches but the previous one.  The queue waits for those verdicts; the
previous batch keeps the processes busy meanwhile.  The same verdicts decide what `harness.search.avoidance` drops.  A
campaign with a time budget also runs variants of each case that completed: they launch kernels that are already
compiled.

The first cases that the plan names come before all others, which wait for their verdicts.

Scouts of all ops come before the first batch on a device.  A batch after them waits for their verdicts: an op whose
library declines them begins on the next device.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count, filterfalse, islice

from harness.execution.paired_run_policy import UNSAMPLED_SEED, is_sampled
from harness.execution.reruns import decided_by_seed, seed_asking
from harness.model.case import CallContext, Case
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.model.run import Completed
from harness.model.verdict import Severity
from harness.search.avoidance import KEEP_ONE_IN, Avoidance
from harness.search.campaign_plan import BATCH_SIZE, BatchPlan, CampaignPlan, batch_plans, derived_seed
from harness.search.campaign_statistics import Trial
from harness.search.failure_rules import FailureRule
from harness.search.first_cases import first_cases
from harness.search.judge import Examination
from harness.search.launch_feedback import LaunchFeedback
from harness.search.strategies import Batch, early_cases, oversized_scout, sampled_scouts, scouts
from harness.search.variants import shape_variants, value_variants

FIRST = -1
"""The batch of first cases.  They give feedback as scouts do, and may be scouts of an earlier campaign."""
MAX_EMPTY_BATCHES = 3
"""An op that gives no new case in so many batches in a row has none left."""
MAX_DRAWS = 8
"""How often a batch is drawn, with other seeds, until it has enough cases that are not avoided."""
STRAGGLERS = BATCH_SIZE // 4
"""With variants, the next batches do not wait for the last cases of a batch for ever: one may compile for a minute."""
STRAGGLERS_S = 5.0
MAX_SHAPE_VARIANTS = 64
MAX_VALUE_VARIANTS = 1024
MAX_FAMILIES = 512
"""Only the latest families are kept, so that their kernels are still in caches."""

Family = tuple[Trial, Iterator[Case]]
"""A case that completed, and its variants."""


class CaseQueue:
    """The cases to come.  It never gives the same case twice."""

    def __init__(self, plan: CampaignPlan) -> None:
        self.avoidance = Avoidance(is_used=plan.avoids)
        self._plan = plan
        self._batch_plans = batch_plans(plan)
        self._upcoming = next(self._batch_plans)
        self._ready: deque[tuple[int | None, Trial]] = deque()
        self._shape_families: deque[Family] = deque(maxlen=MAX_FAMILIES)
        self._value_families: deque[Family] = deque(maxlen=MAX_FAMILIES)
        self._unjudged: dict[int, int] = {}
        """By batch, how many of its cases have no verdicts yet."""
        self._feedback_by_batch: dict[int, dict[str, LaunchFeedback]] = {}
        """By batch and op."""
        self._seen: set[str] = set()
        self._seen_variants: set[str] = set()
        self._empty_batches: dict[tuple[str, str], int] = {}
        """By op and device."""
        self._only_avoided: set[tuple[str, str]] = set()
        """Ops and devices whose last batch had no new case but those that a rule drops."""
        self._waiting_since: float | None = None
        """The moment since which the next batch waits for verdicts."""
        self._numbered = 0
        self._batches = 0
        self._scouted: set[str] = set()
        """The slugs of the devices that have had their scouts."""
        self._last_scouts = 0
        """The latest batch of scouts."""
        self._begun: set[str] = set()
        """The ids of the ops that have had a batch."""
        first = first_cases(plan)
        self.dropped_cases = first.dropped
        """First cases that the ops do not have, each with the reason."""
        self._unjudged[FIRST] = 0
        self._add(
            FIRST, (trial for trial in first.trials if self._is_new(trial.case) | self._is_new_variant(trial.case))
        )

    def take(self) -> tuple[int | None, Trial] | None:
        """Return the next case and its batch; None if no case is ready.

        The batch is None for shape variants and for oversized scouts: no batch waits for them.
        """
        while not self._ready and self._may_draw():
            self._draw()
        if self._ready:
            return self._ready.popleft()
        # The next batch still waits for verdicts: shape variants fill the time.
        variant = self._next_of(self._shape_families)
        return variant and (None, variant)

    def take_value_variant(self, *, may_be_sampled: bool = True) -> Trial | None:
        """Return a case whose kernels are compiled, though those of its paired runs may not be; None if none is left.

        `may_be_sampled` allows cases that get paired runs on another SM count and with another config.
        """
        if not may_be_sampled and any(map(decided_by_seed, self._plan.second_runs)):
            return None  # all variants are sampled, and none is to be lost
        return self._next_of(self._value_families, may_be_sampled=may_be_sampled)

    def _next_of(self, families: deque[Family], *, may_be_sampled: bool = True) -> Trial | None:
        """Return a new variant, taking the families in turn; variants that must not be sampled are dropped."""
        while families and not self._is_used_up():
            leader, cases = families.popleft()
            allowed = cases if may_be_sampled else filterfalse(is_sampled, cases)
            if (case := self._new_variant(leader.op, allowed)) is not None:
                families.append((leader, cases))
                self._numbered += 1
                return replace(leader, case=case, batch=None, number=self._numbered - 1)
        return None

    def _new_variant(self, op: Op, variants: Iterator[Case]) -> Case | None:
        rules = self.avoidance.latest_rules(op)
        new = filter(self._is_new_variant, variants)
        return next((case for case in new if not self.avoidance.drops(op, case, rules)), None)

    def record(self, batch: int, trial: Trial, examined: Examination) -> None:
        """Record that a case of this batch has its verdicts."""
        run = examined.run
        self._unjudged[batch] -= 1
        self.avoidance.record(batch, trial, examined)
        by_op = self._feedback_by_batch.setdefault(batch, {})
        by_op[trial.op.id] = by_op.get(trial.op.id, LaunchFeedback()) | LaunchFeedback.of(run)
        is_followed = self._plan.adds_variants and trial.case.context is CallContext.MAIN
        if is_followed and isinstance(run.ending, Completed):
            # Variants of a case with errors mostly repeat them, and take the time of others.
            fewer = KEEP_ONE_IN if any(fail.signature.severity is Severity.ERROR for fail in examined.fails) else 1
            shapes, values = MAX_SHAPE_VARIANTS // fewer, MAX_VALUE_VARIANTS // fewer
            self._shape_families.append((trial, self._asking(shape_variants(trial.op, trial.case, shapes))))
            self._value_families.append((trial, self._asking(value_variants(trial.op, trial.case, values))))

    def _may_draw(self) -> bool:
        if self._is_used_up() or self._is_exhausted():
            return False
        left = max((left for batch, left in self._unjudged.items() if batch <= self._last_known_batch()), default=0)
        if not left:
            self._waiting_since = None
            return True
        if self._waiting_since is None:
            self._waiting_since = time.monotonic()
        is_late = time.monotonic() - self._waiting_since > STRAGGLERS_S
        return self._plan.adds_variants and left <= STRAGGLERS and is_late

    def _last_known_batch(self) -> int:
        """Return the last batch whose feedback the next one uses: that of scouts, or the one before the previous."""
        return max(self._batches - 2, self._last_scouts)

    def _is_used_up(self) -> bool:
        most = self._plan.budget.cases
        return most is not None and self._numbered >= most

    def _is_exhausted(self) -> bool:
        pairs = len(self._plan.ops) * len(self._plan.devices)
        return sum(empty >= MAX_EMPTY_BATCHES for empty in self._empty_batches.values()) == pairs

    def _draw(self) -> None:
        number, last_known_batch = self._batches, self._last_known_batch()
        self._unjudged[number] = 0
        plan = self._next_batch_plan(last_known_batch)
        home = self._home(plan)
        self._batches += 1
        if home.slug in self._scouted:
            if plan.op.id not in self._begun and home != self._plan.devices[0]:
                self._add_oversized_scout(plan.op, home)  # the first device declines the op
            self._add(number, self._drawn(plan, home, last_known_batch))
            return
        self._scouted.add(home.slug)
        self._last_scouts = number
        self._add(number, self._scouts(home))
        for op in self._plan.ops if not number else ():
            self._add_oversized_scout(op, home)

    def _add(self, batch: int | None, trials: Iterable[Trial]) -> None:
        for trial in trials:
            if self._is_used_up():
                return
            self._ready.append((batch, replace(trial, number=self._numbered)))
            self._numbered += 1
            if batch is not None:
                self._unjudged[batch] += 1

    def _add_oversized_scout(self, op: Op, device: DeviceProfile) -> None:
        """Add an oversized case, if the op can have one."""
        case = oversized_scout(op, device, derived_seed(self._plan.seed, op.portable_id, "oversized"))
        if case is not None and self._is_new(case):
            self._add(None, [Trial(number=0, op=op, case=case, batch=None, home_sm_count=device.sm_count)])

    def _scouts(self, device: DeviceProfile) -> Iterator[Trial]:
        """Yield the scouts of all ops, without second runs: those compile every config, and load other SM counts."""
        for op in self._plan.ops:
            for case in self._asking(replace(scout, seed=UNSAMPLED_SEED) for scout in scouts(op, device)):
                if self._is_new(case) and self._is_new_variant(case):
                    yield Trial(number=0, op=op, case=case, batch=None, home_sm_count=device.sm_count)

    def _asking(self, cases: Iterable[Case]) -> Iterator[Case]:
        """Yield the cases, with seeds that ask for the second runs of the plan."""
        return (replace(case, seed=seed_asking(case.seed, self._plan.second_runs)) for case in cases)

    def _home(self, plan: BatchPlan) -> DeviceProfile:
        """Return the device of a batch with its own SM count."""
        return next(device for device in self._plan.devices if device.slug == plan.device.slug)

    def _next_batch_plan(self, last_batch: int) -> BatchPlan:
        """Return the next batch plan, passing over ops that are set aside as long as there are others.

        It is also that of the next draw if its device has no scouts yet, which come before it.
        """
        pairs = [(op, device.slug) for op in self._plan.ops for device in self._plan.devices]
        may_skip = not all(
            self.avoidance.is_set_aside(op, slug, last_batch) or self._has_none_left(op, slug) for op, slug in pairs
        )
        while self._upcoming.device.slug in self._scouted:
            plan, self._upcoming = self._upcoming, next(self._batch_plans)
            if not (may_skip and self._skips(plan, last_batch)):
                return plan
        return self._upcoming

    def _skips(self, plan: BatchPlan, last_batch: int) -> bool:
        """Return True for a batch of an op that is set aside, and for the first on a device that it declines."""
        slug = plan.device.slug
        if plan.is_early and len(self._plan.devices) > 1 and self.avoidance.is_declined(plan.op, slug, last_batch):
            return True
        return self.avoidance.skips_turn(plan.op, slug, last_batch)

    def _drawn(self, plan: BatchPlan, home: DeviceProfile, last_known_batch: int) -> Iterator[Trial]:
        if self._has_none_left(plan.op, plan.device.slug):
            return
        is_first = plan.op.id not in self._begun
        feedback = self._feedback(plan.op, last_known_batch)
        batch = plan.batch(feedback.without_configs if is_first else feedback)
        pair = (plan.op.id, plan.device.slug)
        chosen = self._chosen(batch, self.avoidance.rules(plan.op, last_known_batch), pair)
        self._empty_batches[pair] = 0 if chosen else self._empty_batches.get(pair, 0) + 1
        for drawn, case in chosen:
            # Cases that Hypothesis shrinks to are in other contexts: moves alone shrink one outside the main thread.
            source = drawn if case.context is CallContext.MAIN else None
            yield Trial(number=0, op=plan.op, case=case, batch=source, home_sm_count=home.sm_count)
        if not is_first:
            return
        self._begun.add(plan.op.id)
        for case in self._asking(sampled_scouts(plan.op, home, feedback)):
            if self._is_new_variant(case):  # its seed counts
                yield Trial(number=0, op=plan.op, case=case, batch=None, home_sm_count=home.sm_count)
        for case in self._asking(early_cases(plan.op, [case for _, case in chosen], feedback)):
            if self._is_new(case):
                yield Trial(number=0, op=plan.op, case=case, batch=None, home_sm_count=home.sm_count)

    def _chosen(self, batch: Batch, rules: tuple[FailureRule, ...], pair: tuple[str, str]) -> list[tuple[Batch, Case]]:
        """Return new cases of the batch.  Draw it again, with other seeds, to replace cases that a rule drops."""
        chosen, dropped = list[tuple[Batch, Case]](), list[tuple[Batch, Case]]()
        for drawn in islice(_drawn_again(batch), 1 if pair in self._only_avoided else MAX_DRAWS):
            before = len(dropped)
            for case in drawn.draw():
                if len(chosen) == BATCH_SIZE:
                    return chosen
                if _without_seed(case) in self._seen:
                    continue
                if self.avoidance.drops(batch.op, case, rules):
                    dropped.append((drawn, case))
                else:
                    self._is_new(case)
                    chosen.append((drawn, case))
            if len(dropped) == before:
                break
        if chosen:
            self._only_avoided.discard(pair)
        elif dropped:
            self._only_avoided.add(pair)
        return chosen or [draw for draw in dropped[:1] if self._is_new(draw[1])]

    def _has_none_left(self, op: Op, slug: str) -> bool:
        return self._empty_batches.get((op.id, slug), 0) >= MAX_EMPTY_BATCHES

    def _feedback(self, op: Op, last_known_batch: int) -> LaunchFeedback:
        feedback = LaunchFeedback()
        for batch, by_op in self._feedback_by_batch.items():
            if batch <= last_known_batch:
                feedback |= by_op.get(op.id, LaunchFeedback())
        return feedback

    def _is_new(self, case: Case) -> bool:
        """Record the case; return True if it differs from all earlier ones in more than its seed.

        Hypothesis often draws cases that differ in the seed alone, and they show little.
        """
        digest = _without_seed(case)
        if digest in self._seen:
            return False
        self._seen.add(digest)
        return True

    def _is_new_variant(self, case: Case) -> bool:
        """Record the variant; return True if no equal one ran before.  Its seed counts, unlike that of a drawn case."""
        digest = case.digest
        if digest in self._seen_variants:
            return False
        self._seen_variants.add(digest)
        return True


def _drawn_again(batch: Batch) -> Iterator[Batch]:
    """Yield the batch, then the same with other seeds, without end."""
    yield batch
    for number in count(1):
        yield replace(batch, seed=derived_seed(batch.seed, "again", str(number)))


def _without_seed(case: Case) -> str:
    return replace(case, seed=0).digest
