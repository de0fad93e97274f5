"""Companions that wait for the compiler, for long or until time is up: they hold up nothing but their own case."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import pytest

from harness.model.case import Case
from harness.model.op import Dim
from harness.model.paired_run import PairedRunRequest, RunRequest, case_of
from harness.model.run import Run
from harness.oracles import registry
from harness.search.campaign import TWINS_AT_ONCE, Campaign
from harness.search.campaign_statistics import CampaignStatistics
from harness.search.judge import Judge
from harness.search.plan import Plan, TimeBudget
from tests.search.fakes import DEVICE, OP, AtOnce, Differing, Silent, Straying, clean

pytestmark = pytest.mark.once

LONG_S = 0.3
GROWING = replace(OP, dims={**OP.dims, "T": Dim(low=1, high=2048, grows=True)})
PLAN = Plan(ops=(GROWING,), devices=(DEVICE,), budget=TimeBudget(seconds=LONG_S), seed=5)
ELSEWHERE = Judge(oracles=(registry.find("sm-invariance"),))
"""A judge who asks for one companion of one case in eight."""


@dataclass
class Compiling(AtOnce):
    """What companions launch is still being compiled."""

    waiting: list[Future[Run]] = field(default_factory=list[Future[Run]])

    def submit(self, wanted: RunRequest) -> Future[Run]:
        if not isinstance(wanted, PairedRunRequest):
            return super().submit(wanted)
        self.waiting.append(Future[Run]())
        return self.waiting[-1]


def test_twins_whose_companions_wait_for_the_compiler_leave_their_places_to_others() -> None:
    def run_twin(case: Case) -> Run:
        ran.add(anywhere(case))
        return clean(case)

    ran: set[str] = set()
    enough = 30 * TWINS_AT_ONCE

    class Patient(Silent):
        def tick(self, tally: CampaignStatistics, trying: Case | None) -> None:
            del tally, trying
            if len(ran) >= enough:
                campaign.stop()

    class CompilingForTwins(Compiling):
        def submit(self, wanted: RunRequest) -> Future[Run]:
            return super().submit(wanted if anywhere(case_of(wanted)) in ran else case_of(wanted))

    runner = CompilingForTwins(clean)
    plan = replace(PLAN, budget=TimeBudget(seconds=60.0), kin=True)
    campaign = Campaign(plan, runner, ELSEWHERE, Patient(), processes=1, submit_twin=AtOnce(run_twin).submit)
    campaign.run()
    assert len(ran) >= enough
    assert TWINS_AT_ONCE <= len(runner.waiting) <= 2 * TWINS_AT_ONCE, "as many as do no harm"


def anywhere(case: Case) -> str:
    return replace(case, device=DEVICE).digest


def test_when_time_is_up_a_case_whose_companion_has_not_begun_is_judged_without_it() -> None:
    runner = Compiling(clean)
    tally = Campaign(PLAN, runner, ELSEWHERE, Silent(), processes=3).run()
    assert runner.waiting
    assert all(future.cancelled() for future in runner.waiting)
    assert (tally.cases, tally.failed) == (len(runner.ran), 0)
    assert "this case was not run at another SM count" in tally.reasons


class Releasing(Silent):
    """Lets what waits come back once time is up."""

    def __init__(self, run: Callable[[RunRequest], Run]) -> None:
        super().__init__()
        self.run = run
        self.waiting: list[tuple[Future[Run], RunRequest]] = []
        self.released = 0

    def keep(self, wanted: RunRequest) -> Future[Run]:
        self.waiting.append((Future[Run](), wanted))
        return self.waiting[-1][0]

    def tick(self, tally: CampaignStatistics, trying: Case | None) -> None:
        del trying
        while self.waiting and tally.seconds > LONG_S:
            future, wanted = self.waiting.pop()
            self.released += 1
            future.set_result(self.run(wanted))


@pytest.mark.parametrize(("wider", "expected"), [(4.0, []), (0.0, ["sm-invariance"])])
def test_when_time_is_up_a_companion_that_differs_is_still_run_whole_before_it_is_judged(
    wider: float, expected: list[str]
) -> None:
    class Late(Differing):
        """Runs nothing a second time before time is up."""

        def submit(self, wanted: RunRequest) -> Future[Run]:
            if wanted not in [one.case for one in self.submitted if isinstance(one, PairedRunRequest)]:
                return super().submit(wanted)
            self.submitted.append(wanted)
            return watcher.keep(wanted)

    runner = Late(clean, wider=wider)
    watcher = Releasing(runner.run)
    tally = Campaign(PLAN, runner, ELSEWHERE, watcher, processes=3).run()
    assert watcher.released
    assert [one.fail.oracle for one in tally.in_order()] == expected


def test_when_time_is_up_a_case_that_ended_on_the_real_gpu_alone_is_still_run_beside_itself_as_plainer_code() -> None:
    class Late(Straying):
        def submit(self, wanted: RunRequest) -> Future[Run]:
            return watcher.keep(wanted) if isinstance(wanted, PairedRunRequest) else super().submit(wanted)

    runner = Late(clean)
    watcher = Releasing(runner.run)
    tally = Campaign(PLAN, runner, Judge(oracles=(registry.find("completes"),)), watcher, processes=3).run()
    assert watcher.released
    (sighting,) = tally.in_order()
    assert sighting.fail.message.endswith("it ends so, too, where ptxas does not optimise")
    assert sighting.count == tally.cases == watcher.released
