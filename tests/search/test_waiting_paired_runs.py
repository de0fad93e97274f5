"""Paired runs that wait for the compiler delay only their own case."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import pytest

from harness.execution.paired_run_policy import ONE_CASE_IN
from harness.execution.reruns import asks_for_other_rows
from harness.model.case import Case
from harness.model.op import Dim
from harness.model.paired_run import PairedRunRequest, RunRequest, SecondRun, case_of
from harness.model.run import Run
from harness.oracles import registry
from harness.search.campaign import Campaign, CampaignWorkers
from harness.search.campaign_plan import CampaignPlan, TimeBudget
from harness.search.campaign_statistics import CampaignStatistics
from harness.search.judge import Judge
from harness.search.variant_pace import VALUE_VARIANTS_PER_PROCESS
from harness.search.variants import value_variants
from harness.workers.dispatcher import KEEP_BUSY
from tests.search.fakes import DEVICE, OP, DifferingRunner, FaultingRunner, ImmediateRunner, Silent, clean

LONG_S = 0.3
GROWING = replace(OP, dims={**OP.dims, "T": Dim(low=1, high=2048, grows=True)})
PLAN = CampaignPlan(ops=(GROWING,), devices=(DEVICE,), budget=TimeBudget(seconds=LONG_S), seed=5)
SAMPLED = replace(PLAN, second_runs=frozenset({SecondRun.SM_COUNT}))
"""A plan whose first case has a paired run."""
OTHER_SM_COUNTS = Judge(oracles=(registry.find("sm-invariance"),))
"""A judge that requests a paired run for one case in eight."""
NO_PAIRED_RUNS = Judge(oracles=(registry.find("write-overlap"),))
COMPILERS = 3
MANY = 256
"""More variants than the first case of a test has in its turn."""


@dataclass
class Compiling(ImmediateRunner):
    """The kernels of paired runs are still being compiled."""

    waiting: list[Future[Run]] = field(default_factory=list[Future[Run]])

    def submit(self, request: RunRequest) -> Future[Run]:
        if not isinstance(request, PairedRunRequest):
            return super().submit(request)
        self.waiting.append(Future[Run]())
        return self.waiting[-1]


def test_variants_whose_paired_runs_wait_do_not_block_others() -> None:
    def run_variant(case: Case) -> Run:
        ran.add(without_sm_count(case))
        return clean(case)

    ran: set[str] = set()
    enough = 30 * VALUE_VARIANTS_PER_PROCESS

    class Patient(Silent):
        def tick(self, statistics: CampaignStatistics, latest: Case | None) -> None:
            del statistics, latest
            if len(ran) >= enough:
                campaign.stop()

    class CompilingForVariants(Compiling):
        def submit(self, request: RunRequest) -> Future[Run]:
            return super().submit(request if without_sm_count(case_of(request)) in ran else case_of(request))

    runner = CompilingForVariants(clean)
    plan = replace(PLAN, budget=TimeBudget(seconds=60.0), adds_variants=True)
    campaign = Campaign(
        plan,
        CampaignWorkers(runner=runner, processes=1, submit_compiled=ImmediateRunner(run_variant).submit),
        OTHER_SM_COUNTS,
        Patient(),
    )
    campaign.run()
    assert len(ran) >= enough
    assert VALUE_VARIANTS_PER_PROCESS <= len(runner.waiting) <= 2 * VALUE_VARIANTS_PER_PROCESS, (
        "waiting variants are bounded"
    )


def without_sm_count(case: Case) -> str:
    return replace(case, device=DEVICE).digest


def test_at_the_deadline_a_case_is_judged_without_queued_paired_runs() -> None:
    runner = Compiling(clean)
    statistics = Campaign(SAMPLED, CampaignWorkers(runner=runner, processes=3), OTHER_SM_COUNTS, Silent()).run()
    assert runner.waiting
    assert all(future.cancelled() for future in runner.waiting)
    assert (statistics.cases, statistics.failed) == (len(runner.ran), 0)
    assert "this case was not run at another SM count" in statistics.reasons


class Releasing(Silent):
    """Finishes waiting runs once time is up."""

    def __init__(self, run: Callable[[RunRequest], Run]) -> None:
        super().__init__()
        self.run = run
        self.waiting: list[tuple[Future[Run], RunRequest]] = []
        self.released = 0

    def keep(self, request: RunRequest) -> Future[Run]:
        self.waiting.append((Future[Run](), request))
        return self.waiting[-1][0]

    def tick(self, statistics: CampaignStatistics, latest: Case | None) -> None:
        del latest
        while self.waiting and statistics.seconds > LONG_S:
            future, request = self.waiting.pop()
            self.released += 1
            future.set_result(self.run(request))


@pytest.mark.parametrize(("wider", "expected"), [(4.0, []), (0.0, ["sm-invariance"])])
def test_at_the_deadline_a_differing_paired_run_is_still_rerun_in_full(wider: float, expected: list[str]) -> None:
    class Late(DifferingRunner):
        """Holds back full reruns until time is up."""

        def submit(self, request: RunRequest) -> Future[Run]:
            if request not in [one.case for one in self.submitted if isinstance(one, PairedRunRequest)]:
                return super().submit(request)
            self.submitted.append(request)
            return watcher.keep(request)

    runner = Late(clean, wider=wider)
    watcher = Releasing(runner.run)
    statistics = Campaign(SAMPLED, CampaignWorkers(runner=runner, processes=3), OTHER_SM_COUNTS, watcher).run()
    assert watcher.released
    assert [one.fail.oracle for one in statistics.in_order()] == expected


def test_at_the_deadline_a_hardware_fault_is_still_rerun_unoptimised() -> None:
    class Late(FaultingRunner):
        def submit(self, request: RunRequest) -> Future[Run]:
            return watcher.keep(request) if isinstance(request, PairedRunRequest) else super().submit(request)

    runner = Late(clean)
    watcher = Releasing(runner.run)
    statistics = Campaign(
        PLAN, CampaignWorkers(runner=runner, processes=3), Judge(oracles=(registry.find("completes"),)), watcher
    ).run()
    assert watcher.released
    (sighting,) = statistics.in_order()
    assert sighting.fail.message.endswith("it ends so, too, where ptxas does not optimise")
    (counts,) = statistics.ops.values()
    assert sighting.count == statistics.cases == watcher.released + counts.oversized  # those have no paired run


def test_variants_whose_row_checks_need_other_builds_are_compiled_first() -> None:
    def run_variant(case: Case) -> Run:
        compiled.append(case)
        return clean(case)

    class Enough(Silent):
        def tick(self, statistics: CampaignStatistics, latest: Case | None) -> None:
            del statistics, latest
            if len(compiled) >= 2 * ONE_CASE_IN * KEEP_BUSY * COMPILERS:
                campaign.stop()

    class BusyCompilers(ImmediateRunner):
        """Compilers that do not come to an end with variants."""

        def submit(self, request: RunRequest) -> Future[Run]:
            case = case_of(request)
            if case.digest in variants:
                waiting.append(case)
                return Future[Run]()
            variants.update(variant.digest for variant in value_variants(op, case, MANY))
            return super().submit(request)

    compiled, waiting, variants = list[Case](), list[Case](), set[str]()
    op = replace(GROWING, independent=("T",))
    plan = replace(PLAN, ops=(op,), budget=TimeBudget(seconds=60.0), adds_variants=True)
    workers = CampaignWorkers(
        runner=BusyCompilers(clean),
        processes=1,
        compilers=COMPILERS,
        submit_compiled=ImmediateRunner(run_variant).submit,
    )
    campaign = Campaign(plan, workers, NO_PAIRED_RUNS, Enough())
    campaign.run()
    assert not any(asks_for_other_rows(op, case) for case in compiled)
    assert len(waiting) == KEEP_BUSY * COMPILERS + 1, "what is drawn does not wait long behind them"
