"""Paired runs of a campaign's cases, which become cases of their own if they break off."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness import catalogue
from harness.model.case import Case, ProgramOrder
from harness.model.kernel_resources import Resources
from harness.model.launch_difference import Plainer
from harness.model.paired_run import PairedRun, PairedRunRequest, RunRequest, SecondRun
from harness.model.run import Crashed, Ending, Launch, Run
from harness.model.verdict import Severity
from harness.oracles import registry
from harness.oracles.sm_invariance import SM_COUNTS
from harness.search.campaign import Campaign, CampaignWorkers
from harness.search.campaign_plan import CampaignPlan, CaseBudget
from harness.search.campaign_statistics import CampaignStatistics
from harness.search.judge import Judge
from harness.search.options import Options
from harness.search.runner import Runner
from harness.search.session import Session
from harness.suite import load_suite
from harness.workers.supervision.time_limits import Patience
from tests.oracles.facts import deadlocked
from tests.search.fakes import (
    DEVICE,
    KERNEL,
    OP,
    DifferingRunner,
    FaultingRunner,
    ImmediateRunner,
    RecordingRunner,
    ShufflingRunner,
    Silent,
    clean,
)

CRASHED = Crashed(signal="SIGSEGV", status=None, log_tail="")
PLAN = CampaignPlan(ops=(OP,), devices=(DEVICE,), budget=CaseBudget(cases=120), seed=5)


def search(runner: Runner, judge: Judge) -> CampaignStatistics:
    return Campaign(PLAN, CampaignWorkers(runner=runner, processes=3), judge, Silent()).run()


def test_paired_runs_do_not_count_as_cases() -> None:
    runner = ImmediateRunner(clean)
    statistics = search(runner, Judge(oracles=(registry.find("sm-invariance"),)))
    paired_runs = len(runner.ran) - statistics.cases
    assert statistics.cases == 120
    assert 0 < paired_runs <= sum(case.seed % 8 == 0 for case in runner.ran)


def test_paired_runs_and_cases_are_requested_differently() -> None:
    runner = RecordingRunner(clean)
    statistics = search(runner, Judge(oracles=(registry.find("sm-invariance"),)))
    assert sum(isinstance(one, Case) for one in runner.submitted) == statistics.cases
    paired = [one for one in runner.submitted if isinstance(one, PairedRunRequest)]
    assert paired
    assert {one.case.device.sm_count for one in paired} <= set(SM_COUNTS)


def test_a_paired_run_that_differs_is_rerun_in_full() -> None:
    """The full run may have a wider tolerance that explains the difference."""

    judge = Judge(oracles=(registry.find("sm-invariance"),))
    runner = DifferingRunner(clean)
    assert list(search(runner, judge).in_order()) == []
    paired = [one.case for one in runner.submitted if isinstance(one, PairedRunRequest)]
    assert any(case in runner.submitted for case in paired)
    assert [one.fail.oracle for one in search(DifferingRunner(clean, wider=0.0), judge).in_order()] == ["sm-invariance"]


def test_a_fault_on_the_hardware_gpu_alone_is_rerun_unoptimised() -> None:
    runner = FaultingRunner(clean)
    statistics = search(runner, Judge(oracles=(registry.find("completes"),)))
    (sighting,) = statistics.in_order()
    assert sighting.fail.message.endswith("it ends so, too, where ptxas does not optimise")
    assert (sighting.count, statistics.cases) == (120, 120)
    requests = [one for one in runner.submitted if isinstance(one, PairedRunRequest)]
    assert {one.plainer for one in requests} == {Plainer.UNOPTIMISED}
    assert len(requests) == 120


@dataclass
class Breaking(RecordingRunner):
    """Cases on other SM counts, or only those in reversed order, have this ending."""

    ending: Ending = CRASHED
    reversed_only: bool = False

    def run(self, request: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
        return broken_off(
            super().run(request, patience=patience), request, self.ending, reversed_only=self.reversed_only
        )


def broken_off(
    run: Run, request: RunRequest, ending: Ending, *, reversed_only: bool = False, everywhere: bool = False
) -> Run:
    """Return the run, with the ending if it breaks off."""
    run = replace(run, launches=tuple(replace(launch, atomics=True) for launch in run.launches))
    is_reversed, is_elsewhere = run.case.order is ProgramOrder.REVERSED, run.case.device.sm_count in SM_COUNTS
    if not (everywhere or (is_reversed if reversed_only else is_elsewhere)):
        return run
    if isinstance(request, Case):
        return replace(run, ending=ending, launches=())
    return PairedRun(case=run.case, engine="virtual", ending=ending)


def former_paired_runs(runner: RecordingRunner) -> list[Case]:
    """Return the paired runs that also ran as cases."""
    paired = {one.case.digest for one in runner.submitted if isinstance(one, PairedRunRequest)}
    return [one for one in runner.submitted if isinstance(one, Case) and one.digest in paired]


def judge_of(*oracles: str) -> Judge:
    return Judge(oracles=tuple(map(registry.find, oracles)))


@pytest.mark.parametrize("ending", [CRASHED, deadlocked()])
def test_a_paired_run_that_breaks_off_becomes_a_case(ending: Ending) -> None:
    runner = Breaking(clean, ending=ending)
    statistics = search(runner, judge_of("sm-invariance", "completes"))
    (sighting,) = statistics.in_order()
    paired = {one.case.digest for one in runner.submitted if isinstance(one, PairedRunRequest)}
    again = former_paired_runs(runner)
    assert sighting.fail.oracle == "completes"
    assert sorted(one.digest for one in again) == sorted(paired)
    elsewhere = sum(isinstance(one, Case) and one.device.sm_count in SM_COUNTS for one in runner.submitted)
    assert (sighting.count, statistics.cases) == (elsewhere, 120 + len(paired))


def test_a_deadlock_in_reversed_order_is_a_warning_about_the_case() -> None:
    runner = Breaking(clean, ending=deadlocked(), reversed_only=True)
    statistics = search(runner, judge_of("order-invariance", "completes"))
    assert [(one.fail.oracle, one.fail.signature.severity, one.count) for one in statistics.in_order()] == [
        ("order-invariance", Severity.WARNING, 120)
    ]
    assert (statistics.cases, statistics.failed, former_paired_runs(runner)) == (120, 120, [])


def test_a_crash_in_reversed_order_becomes_a_case() -> None:
    runner = Breaking(clean, reversed_only=True)
    statistics = search(runner, judge_of("order-invariance", "completes"))
    assert [one.fail.oracle for one in statistics.in_order()] == ["completes"]
    assert {one.order for one in former_paired_runs(runner)} == {ProgramOrder.REVERSED}
    assert statistics.cases == 240


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_findings_do_not_depend_on_the_order_of_paired_runs(seed: int) -> None:
    """Every case crashes on other SM counts and with every other config, so several paired runs of a case crash."""

    def breaks_off(run: Run, request: RunRequest) -> Run:
        odd = run.case.configs.get(KERNEL, 0) % 2 == 1
        return broken_off(run, request, CRASHED, everywhere=odd)

    class Steady(RecordingRunner):
        def run(self, request: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
            return breaks_off(super().run(request, patience=patience), request)

    class Shuffled(ShufflingRunner):
        def run(self, request: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
            return breaks_off(super().run(request, patience=patience), request)

    judge = judge_of("sm-invariance", "config-invariance", "completes")
    expected = search(Steady(clean), judge)
    runner = Shuffled(clean, seed)
    found = search(runner, judge)
    runner.close()
    assert seen(found) == seen(expected)


def seen(statistics: CampaignStatistics) -> object:
    firsts = [(one.fail, one.first.case, one.simplest.case, one.count) for one in statistics.in_order()]
    return statistics.cases, statistics.verdicts, firsts


class LateCompiler:
    """Knows each build once the campaign waits: the one on the own SM count takes too much shared memory."""

    def __init__(self) -> None:
        self.is_settled = False

    def of(self, launch: Launch) -> Resources | None:
        if not self.is_settled:
            return None
        return Resources(
            registers_per_thread=32,
            spill_bytes=0,
            shared_bytes=300_000 if launch.build == "at home" else 0,
            tensor_memory_columns=0,
            scratch_bytes_per_program=0,
            threads=128,
        )

    def wait_for(self, launches: Iterable[Launch], limit_s: float | None = None) -> None:
        pass

    def settle(self, limit_s: float | None = None) -> None:
        del limit_s
        self.is_settled = True


def test_late_resources_are_checked_for_former_paired_runs_too() -> None:
    class Dying(RecordingRunner):
        """On other SM counts the process dies after a launch of another build."""

        def run(self, request: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
            run = super().run(request, patience=patience)
            elsewhere = run.case.device.sm_count in SM_COUNTS
            build = "elsewhere" if elsewhere else "at home"
            launches = tuple(replace(one, build=build, config_count=1) for one in run.launches)
            if elsewhere and not isinstance(request, Case):
                return PairedRun(case=run.case, engine="virtual", ending=CRASHED, launches=launches)
            return replace(run, launches=launches, ending=CRASHED if elsewhere else run.ending)

    oracles = tuple(map(registry.find, ("sm-invariance", "completes", "resources")))
    judge = Judge(oracles=oracles, resources=LateCompiler())
    runner = Dying(clean)
    statistics = Campaign(
        replace(PLAN, budget=CaseBudget(cases=1), second_runs=frozenset({SecondRun.SM_COUNT})),
        CampaignWorkers(runner=runner, processes=1),
        judge,
        Silent(),
    ).run()
    assert [one.case.device.sm_count in SM_COUNTS for one in runner.submitted if isinstance(one, PairedRunRequest)] == [
        True
    ]
    assert {one.fail.oracle for one in statistics.in_order()} == {"completes", "resources"}


# --- real processes --------------------------------------------------------------------------------------------------

SUITE = Path(__file__).with_name("paired_run_suite.py")


def failed_oracles(
    op_name: str, sm_count: int | None, cases: int, second_runs: Iterable[SecondRun] = ()
) -> list[tuple[str, Severity]]:
    """Search one op of the suite in real processes, and return the oracles that failed."""
    (op,) = (one for one in load_suite(str(SUITE)) if one.name == op_name)
    home = catalogue.find("rtx-pro-6000")
    options = Options(
        suites=(str(SUITE),),
        ops=(op,),
        devices=(home.with_sm_count(sm_count) if sm_count else home,),
        budget=CaseBudget(cases=cases),
        seed=1,
        fixed_sm_count=True,
        processes=2,
    )
    with Session(options) as session:
        plan = replace(options.plan, second_runs=frozenset(second_runs))
        workers = CampaignWorkers(runner=session.pool, processes=session.processes)
        statistics = Campaign(plan, workers, session.judge, Silent()).run()
    assert statistics.abstained == 0, statistics.reasons
    return [(one.fail.oracle, one.fail.signature.severity) for one in statistics.in_order()]


@pytest.mark.slow
def test_a_lookback_scan_is_a_warning() -> None:
    assert failed_oracles("scan", sm_count=2, cases=12) == [("order-invariance", Severity.WARNING)]


@pytest.mark.slow
def test_excessive_resources_are_found_though_the_op_raises_with_one_sm() -> None:
    assert sorted(failed_oracles("product", None, 1, {SecondRun.SM_COUNT})) == [
        ("completes", Severity.ERROR),
        ("resources", Severity.ERROR),
    ]
