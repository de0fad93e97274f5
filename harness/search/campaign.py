"""A campaign: draw cases in batches, run them on all processes at once, judge them, and record every failure.

A campaign goes on after failures.  With a budget in cases, a seed always gives the same cases, whatever the timing.
For that, a batch is drawn from the launch feedback of all batches but the previous one, and waits for their verdicts.
The previous batch keeps the processes busy meanwhile.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from operator import itemgetter
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

from harness.execution.reruns import asks_for_other_rows
from harness.model.case import Case, ProcessKind
from harness.model.paired_run import PairedRun, RunRequest, request_config_builds, with_config_builds
from harness.model.run import Completed, Deadlocked, Refused, Run, Unsupported
from harness.model.verdict import Fail
from harness.oracles import registry
from harness.oracles.traits import Need
from harness.search.campaign_plan import CampaignPlan, CaseBudget, TimeBudget
from harness.search.campaign_statistics import CampaignStatistics, Trial
from harness.search.case_queue import CaseQueue
from harness.search.judge import Examination, Judge, compiled_launches, has_configs_compiled
from harness.search.op_statistics import builds_of
from harness.search.runner import Runner
from harness.search.sort_key import sort_key
from harness.search.structure_doubts import StructureDoubts
from harness.search.suite_failures import SuiteFailures
from harness.search.variant_pace import VariantPace
from harness.workers.dispatcher import KEEP_BUSY

MAX_PRECEDING_CASES = 16
"""How many earlier cases of a device and environment are kept.

Triage tries them when a failure does not repeat alone.
"""
TICK_S = 0.5
GRACE_SHARE = 0.25
"""The part of the time for triage in which a search still waits for its running cases."""
LEAST_GRACE_S = 2.0
CONCURRENT_TICK_S = 0.05
"""Shorter: campaigns that run at the same time handle their finished runs only between two ticks of this one."""


_Key = TypeVar("_Key")


class Observer(Protocol):
    """Receives the progress of a campaign.  Methods are called on the campaign's thread, so they return soon."""

    def tick(self, statistics: CampaignStatistics, latest: Case | None, /) -> None:
        """Some time has passed, or a case was judged; `latest` is the case submitted last."""
        ...

    def sighted(self, fail: Fail, trial: Trial, /) -> None:
        """A failure with a new signature was seen; it is neither confirmed nor shrunk yet."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignWorkers:
    """The processes that run the cases of a campaign."""

    runner: Runner
    processes: int
    """How many cases run at once."""
    compilers: int = 0
    """How many processes compile cases before they run."""
    submit_compiled: Callable[[Case], Future[Run]] | None = None
    """Submits a case whose kernels are already compiled; `runner.submit` if None."""
    stop_running: Callable[[], None] = lambda: None
    """Ends the cases that run now; their processes are free again."""


@dataclass(slots=True, kw_only=True)
class _PendingCase:
    """One case between its submission and its verdicts."""

    trial: Trial
    batch: int | None
    """The batch that counts it; None for variants and for former paired runs."""
    awaited: set[Future[Run]]
    is_value_variant: bool = False
    compiles_first: bool = False
    """True for a value variant whose own row check may need builds that its family has not compiled."""
    needs_awaited: bool = False
    """True if the awaited runs decide the verdict, so that they are not dropped at the deadline."""
    run: Run | None = None
    paired_runs: dict[str, Run] = field(default_factory=dict[str, Run])


class Campaign:
    """One search; `statistics` may be read at any time, also after an interrupt."""

    def __init__(self, plan: CampaignPlan, workers: CampaignWorkers, judge: Judge, observer: Observer) -> None:
        self.statistics = CampaignStatistics()
        self._plan = plan
        self._runner = workers.runner
        self._judge = judge
        self._observer = observer
        self._max_pending = KEEP_BUSY * (workers.processes + workers.compilers)
        self._compiled_first = KEEP_BUSY * workers.compilers
        self._submit_compiled = workers.submit_compiled
        self._pace = VariantPace(workers.processes)
        self._queue = CaseQueue(plan)
        self.statistics.dropped_cases = self._queue.dropped_cases
        self._doubts = StructureDoubts()
        self._suite_failures = SuiteFailures()
        self._pending: dict[Future[Run], _PendingCase] = {}
        self._finished = SimpleQueue[Future[Run]]()
        """Filled on the runner's threads, read on the campaign's."""
        self._latest: Case | None = None
        self._recent = dict[ProcessKind, deque[Case]]()
        self._builds: dict[str, tuple[Trial, Examination]] = {}
        self._tuned_builds: dict[tuple[str, int], tuple[Trial, Examination]] = {}
        """By a build and the number of its kernel's configs: cases that may have the other configs compiled."""
        self._sharing = list[tuple[Trial, Examination]]()
        """The cases that share a config with another one, whose builds others may have launched before."""
        self._former_paired_runs: set[str] = set()
        """Digests of the paired runs that were run again as cases."""
        self._begun = time.monotonic()
        self._time_up_at: float | None = None
        """The moment at which no new case began any more."""
        self._stop_running = workers.stop_running
        self._stopped = False
        self._error: Exception | None = None

    def stop(self) -> None:
        """Make `run` return now; cases on their way are dropped.  Observers may call it."""
        self._stopped = True

    def run(self, concurrent: Sequence["Campaign"] = ()) -> CampaignStatistics:
        """Use up the budget.  A KeyboardInterrupt leaves `statistics` with what was counted until then.

        The `concurrent` campaigns make progress meanwhile.  Each ends when it is run itself.
        """
        try:
            if self._error is not None:
                raise self._error
            while self._step(CONCURRENT_TICK_S if concurrent else TICK_S):
                for other in concurrent:
                    other.poll()
            if not self._stopped:
                self._judge.resources.settle(self._grace_s)
                if self._compile_other_configs():
                    self._judge.resources.settle(self._grace_s)
                self._judge_late_resources()
        except KeyboardInterrupt:
            self._count_known_builds()
            raise
        finally:
            self._count_what_is_held()
            self.statistics.seconds = time.monotonic() - self._begun
            for future in self._pending:
                future.cancel()
            self._explain()
        return self.statistics

    def _explain(self) -> None:
        """Add to the statistics what was avoided, and to each sighting what its cases have in common."""
        avoidance = self._queue.avoidance
        self.statistics.avoided, self.statistics.set_aside = avoidance.avoided, avoidance.set_aside
        for sighting in self.statistics.sightings.values():
            sighting.rule = avoidance.rule_of(sighting.first.op, sighting.fail.signature)

    def poll(self) -> None:
        """Judge finished runs and submit more cases, without waiting.  For a campaign that another one waits for."""
        try:
            self._step(0.0)
        except Exception as error:  # noqa: BLE001 - `run` of this campaign raises it, not `run` of the other one
            self._error = error

    def _step(self, wait_s: float) -> bool:
        """Submit cases and handle finished runs; return False if nothing is left to do."""
        if self._stopped or self._error is not None or not (self._submit_cases() or self._pending):
            return False
        for future in self._take_finished(wait_s):
            if not self._stopped:
                self._handle(future)
        if self._is_time_up():
            self._drop_what_has_not_begun()
            self._drop_what_takes_too_long()
        self.statistics.seconds = time.monotonic() - self._begun
        self._observer.tick(self.statistics, self._latest)
        return True

    def _take_finished(self, wait_s: float) -> list[Future[Run]]:
        """Return the finished runs that are still pending, waiting up to `wait_s` for the first."""
        try:
            finished = [self._finished.get(timeout=wait_s)]
        except Empty:
            return []
        finished += [self._finished.get() for _ in range(self._finished.qsize())]
        return [future for future in finished if future in self._pending]

    def _await(self, future: Future[Run], pending: _PendingCase) -> None:
        self._pending[future] = pending
        future.add_done_callback(self._finished.put)

    def _submit_cases(self) -> bool:
        """Submit cases while there is room; return True if any was submitted."""
        submitted = False
        variants = [pending for pending in self._pending.values() if pending.is_value_variant]
        usual = len(self._pending) - len(variants)
        running = sum(pending.run is None and not pending.compiles_first for pending in variants)
        most = self._pace.at_once if self._plan.adds_variants else 0
        while usual < self._max_pending and not self._is_time_up() and (next_one := self._queue.take()):
            batch, trial = next_one
            self._start(trial, batch, self._runner.submit(self._judge.as_examined(trial.case)))
            usual += 1
            submitted = True
        while running < most and not self._is_time_up():
            variant = self._queue.take_value_variant(may_be_sampled=self._may_sample(variants))
            if variant is None:
                break
            variants.append(self._start_value_variant(variant))
            running += not variants[-1].compiles_first
            submitted = True
        return submitted

    def _may_sample(self, variants: Sequence[_PendingCase]) -> bool:
        """Return True if another value variant may wait for builds of its second runs, as some of these do."""
        at_compilers = sum(pending.compiles_first and pending.run is None for pending in variants)
        after_running = sum(pending.run is not None for pending in variants)
        # What is drawn waits for the compilers behind these.
        return at_compilers <= self._compiled_first and after_running < self._pace.most

    def _start_value_variant(self, trial: Trial) -> _PendingCase:
        case = self._judge.as_examined(trial.case)
        compiles_first = self._submit_compiled is not None and asks_for_other_rows(trial.op, case)
        submit = self._runner.submit if compiles_first or self._submit_compiled is None else self._submit_compiled
        pending = self._start(trial, None, submit(case))
        pending.is_value_variant, pending.compiles_first = True, compiles_first
        return pending

    def _start(self, trial: Trial, batch: int | None, future: Future[Run]) -> _PendingCase:
        self._latest = trial.case
        recent = self._recent.setdefault(trial.case.process, deque(maxlen=MAX_PRECEDING_CASES))
        trial = replace(trial, before=tuple(recent))
        pending = _PendingCase(trial=trial, batch=batch, awaited={future})
        self._await(future, pending)
        recent.append(trial.case)
        return pending

    def _is_time_up(self) -> bool:
        if self._time_up_at is None and isinstance(budget := self._plan.budget, TimeBudget):
            elapsed_s = time.monotonic() - self._begun
            reserve_s = budget.reserve_s(len(self.statistics.sightings), self.statistics.cases, elapsed_s)
            if elapsed_s >= budget.seconds - reserve_s:
                self._time_up_at = time.monotonic()
        return self._time_up_at is not None

    @property
    def _grace_s(self) -> float | None:
        """How long the search may wait for what still runs when its time is up; None if it need not leave any time."""
        match self._plan.budget:
            case TimeBudget(seconds=seconds, triage_share=share) if share:
                return max(LEAST_GRACE_S, GRACE_SHARE * (seconds - (time.monotonic() - self._begun)))
            case TimeBudget() | CaseBudget():
                return None

    def _drop_what_takes_too_long(self) -> None:
        """Give up the cases that still run, and name them: triage needs the time and their processes."""
        if self._time_up_at is None or self._grace_s is None:
            return
        if time.monotonic() - self._time_up_at < self._grace_s:
            return
        cut_off = {id(pending): pending.trial.case for pending in self._pending.values()}
        self.statistics.cut_off += cut_off.values()
        for future in self._pending:
            future.cancel()
        self._pending.clear()
        self._stop_running()

    def _drop_what_has_not_begun(self) -> None:
        """Cancel what is still waiting for a process or a compiler; cases are judged without such paired runs."""
        for future, pending in list(self._pending.items()):
            if pending.needs_awaited or not future.cancel():
                continue
            del self._pending[future]
            pending.awaited.discard(future)
            if pending.run is not None:
                self._advance(pending, pending.run)

    def _handle(self, future: Future[Run]) -> None:
        pending = self._pending.pop(future)
        pending.awaited.discard(future)
        run = future.result()
        if pending.run is None:
            if pending.is_value_variant:
                self._pace.note(run)
            pending.run = run
            requests = self._judge.paired_runs(pending.trial.op, run)
            # After a fault on the hardware GPU alone, the rerun of unoptimised code decides the verdict.
            pending.needs_awaited = any(request.plainer is not None for request in requests)
            self._submit_more(pending, requests)
        else:
            pending.paired_runs[run.case.digest] = run
            if isinstance(run, PairedRun) and _breaks_off(pending.trial.case, run):
                self._run_as_case(pending.trial, run.case)
        self._advance(pending, pending.run)

    def _advance(self, pending: _PendingCase, run: Run) -> None:
        """Judge the case once all its runs are there; first rerun in full those paired runs that differ from it."""
        if not pending.awaited and (full := self._judge.needing_full_run(run, pending.paired_runs)):
            pending.needs_awaited = True
            self._submit_more(pending, full)
        if not pending.awaited:
            self._finish(pending, run)

    def _run_as_case(self, trial: Trial, case: Case) -> None:
        """Run a paired run that broke off again, as a case of its own: paired runs are never judged by themselves."""
        if case.digest in self._former_paired_runs or self._is_time_up():
            return
        self._former_paired_runs.add(case.digest)
        self._start(replace(trial, case=case, batch=None, was_paired_run=True), None, self._runner.submit(case))

    def _submit_more(self, pending: _PendingCase, requests: Sequence[RunRequest]) -> None:
        for request in requests:
            future = self._runner.submit(request)
            pending.awaited.add(future)
            self._await(future, pending)

    def _finish(self, pending: _PendingCase, run: Run) -> None:
        trial = pending.trial
        examined = self._judge.judge(trial.op, run, pending.paired_runs)
        for each in (run, *pending.paired_runs.values()):
            self.statistics.line_coverage.count(each)
        if not trial.was_paired_run:
            self.statistics.promising.count(trial.case, trial.order_key, run)
        self._count(pending.trial, examined)
        if pending.batch is not None:
            self._queue.record(pending.batch, pending.trial, examined)
        if examined.run.keys is not None and examined.run.keys.shared:
            self._sharing.append((pending.trial, examined))
        if self._judge.checks_resources and (builds := builds_of(examined)):
            for build in builds:
                _keep_earliest(self._builds, build, pending.trial, examined)
            for launch in examined.run.launches if has_configs_compiled(trial.case) else ():
                if launch.config_count > 1:
                    _keep_earliest(self._tuned_builds, (launch.build, launch.config_count), trial, examined)

    def _count(self, trial: Trial, examined: Examination) -> None:
        """Count the case, unless it is held back, and those that were held back for one like it."""
        self._suite_failures.see(trial, examined.run.ending)
        if held := self._doubts.hold(trial, examined):
            self._record_fails(trial, held.other_fails)
            return
        self.statistics.count(examined)
        self._record_fails(trial, examined.fails)
        for released in self._doubts.released_by(trial, examined.run):
            self.statistics.count(released.examined)
            self._record_fails(released.trial, (released.fail,))

    def _count_what_is_held(self) -> None:
        """Count the cases of ops whose suite is wrong as not checked, and name what suites raised."""
        self.statistics.suite_errors += self._suite_failures.messages()
        for message, cases in self._doubts.wrong_suites():
            self.statistics.suite_errors.append(message)
            for held in cases:
                self.statistics.count(held.not_checked)

    def _record_fails(self, trial: Trial, fails: tuple[Fail, ...]) -> None:
        self.statistics.seconds = time.monotonic() - self._begun
        for fail in fails:
            if self.statistics.sight(fail, trial, sort_key(trial.op, trial.case, trial.home_sm_count)):
                self._observer.sighted(fail, trial)

    def _compile_other_configs(self) -> bool:
        """Have the other configs compiled of each kernel whose config does not fit; return True if there are any.

        The case of such a kernel is run again for that.
        """
        lacking = {
            trial.order_key: examined.run
            for trial, examined in self._tuned_builds.values()
            if self._judge.lacks_config_builds(examined.run)
        }
        repeated = {key: self._runner.submit(request_config_builds(run)) for key, run in lacking.items()}
        runs = {key: with_config_builds(run, repeated[key].result()) for key, run in lacking.items()}
        self._tuned_builds = {
            key: (trial, replace(examined, run=runs.get(trial.order_key, examined.run)))
            for key, (trial, examined) in self._tuned_builds.items()
        }
        doubtful = (self._judge.doubtful_configs(examined.run) for _, examined in self._tuned_builds.values())
        return bool([self._judge.resources.of(launch) for launches in doubtful for launch in launches])

    def _judge_late_resources(self) -> None:
        """Judge one run of each build again for resources: the compiler often reports after the run was judged.

        What a build alone does not tell, its kernel's other configs may: one run of each set of configs is judged too.
        """
        resources_only = self._judge.only(*registry.names_with(lambda traits: Need.RESOURCES in traits.needs))
        self._count_known_builds()
        sighted = set(self.statistics.sightings)
        judged = (*self._builds.values(), *self._sharing, *self._tuned_builds.values())
        runs = {trial.order_key: (trial, examined) for trial, examined in judged}
        for _, (trial, examined) in sorted(runs.items(), key=itemgetter(0)):
            late = resources_only.judge(trial.op, examined.run, {})
            self.statistics.recount(examined, examined.with_verdicts_of(late))
            self._record_fails(trial, tuple(fail for fail in late.fails if fail.signature not in sighted))

    def _count_known_builds(self) -> None:
        launches = {
            launch.build: launch for _, known in self._builds.values() for launch in compiled_launches(known.run)
        }
        resources = {build: self._judge.resources.of(launches[build]) for build in self._builds}
        known = frozenset(build for build, needs in resources.items() if needs is not None and not needs.unknown)
        self.statistics.builds, self.statistics.compiled = len(resources), len(known)
        self.statistics.known_builds = known


def _keep_earliest(kept: dict[_Key, tuple[Trial, Examination]], key: _Key, trial: Trial, examined: Examination) -> None:
    """Let the earliest trial represent a key, so that findings do not depend on timing."""
    known = kept.get(key)
    if known is None or trial.order_key < known[0].order_key:
        kept[key] = (trial, examined)


def _breaks_off(case: Case, paired_run: PairedRun) -> bool:
    """Return True if a paired run of the case crashed, hung or raised, so that it needs verdicts of its own."""
    if isinstance(paired_run.ending, Deadlocked) and paired_run.case.order is not case.order:
        return False  # a GPU need not ever take that order: `order-invariance` warns of it, and it is no error
    is_another = paired_run.case.digest != case.digest
    return is_another and not isinstance(paired_run.ending, Completed | Refused | Unsupported)
