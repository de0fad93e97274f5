"""Companions of a campaign's cases: run beside them, and cases of their own where they break off."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.devices import catalogue
from harness.model.case import Case, ProgramOrder
from harness.model.kernel_resources import Resources
from harness.model.launch_difference import Plainer
from harness.model.paired_run import PairedRun, PairedRunRequest, RunRequest
from harness.model.run import Crashed, Ending, Launch, Run
from harness.model.verdict import Severity
from harness.oracles import registry
from harness.oracles.sm_invariance import SM_COUNTS
from harness.search.campaign import Campaign
from harness.search.campaign_statistics import CampaignStatistics
from harness.search.judge import Judge
from harness.search.options import Options
from harness.search.plan import CaseBudget, Plan
from harness.search.runner import Runner
from harness.search.session import Session
from harness.suite import load_suite
from harness.workers.supervision.time_limits import Patience
from tests.oracles.facts import deadlocked
from tests.search.fakes import DEVICE, KERNEL, OP, AtOnce, Differing, Noting, OutOfOrder, Silent, Straying, clean

pytestmark = pytest.mark.once

CRASHED = Crashed(signal="SIGSEGV", status=None, log_tail="")
PLAN = Plan(ops=(OP,), devices=(DEVICE,), budget=CaseBudget(cases=120), seed=5)


def search(runner: Runner, judge: Judge) -> CampaignStatistics:
    return Campaign(PLAN, runner, judge, Silent(), processes=3).run()


def test_companions_are_run_and_count_as_no_case() -> None:
    runner = AtOnce(clean)
    tally = search(runner, Judge(oracles=(registry.find("sm-invariance"),)))
    companions = len(runner.ran) - tally.cases
    assert tally.cases == 120
    assert 0 < companions <= sum(case.seed % 8 == 0 for case in runner.ran)


def test_companions_are_wanted_beside_their_run_and_cases_by_themselves() -> None:
    runner = Noting(clean)
    tally = search(runner, Judge(oracles=(registry.find("sm-invariance"),)))
    assert sum(isinstance(one, Case) for one in runner.submitted) == tally.cases
    besides = [one for one in runner.submitted if isinstance(one, PairedRunRequest)]
    assert besides
    assert {one.case.device.sm_count for one in besides} <= set(SM_COUNTS)


def test_a_companion_that_differs_is_run_whole_before_it_is_judged() -> None:
    """A wider tolerance of its own may explain what the run's does not."""

    judge = Judge(oracles=(registry.find("sm-invariance"),))
    runner = Differing(clean)
    assert list(search(runner, judge).in_order()) == []
    besides = [one.case for one in runner.submitted if isinstance(one, PairedRunRequest)]
    assert any(case in runner.submitted for case in besides)
    assert [one.fail.oracle for one in search(Differing(clean, wider=0.0), judge).in_order()] == ["sm-invariance"]


def test_a_case_that_ends_on_the_real_gpu_alone_is_run_beside_itself_and_not_as_another_case() -> None:
    runner = Straying(clean)
    tally = search(runner, Judge(oracles=(registry.find("completes"),)))
    (sighting,) = tally.in_order()
    assert sighting.fail.message.endswith("it ends so, too, where ptxas does not optimise")
    assert (sighting.count, tally.cases) == (120, 120)
    wanted = [one for one in runner.submitted if isinstance(one, PairedRunRequest)]
    assert {one.plainer for one in wanted} == {Plainer.UNOPTIMISED}
    assert len(wanted) == 120


@dataclass
class Breaking(Noting):
    """Away from home, or in reversed order where that is asked for, cases end so, and nothing else does."""

    ending: Ending = CRASHED
    reversed_only: bool = False

    def run(self, wanted: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
        return broken_off(super().run(wanted, patience=patience), wanted, self.ending, reversed_only=self.reversed_only)


def broken_off(
    run: Run, wanted: RunRequest, ending: Ending, *, reversed_only: bool = False, everywhere: bool = False
) -> Run:
    """The run, or how it ended where it breaks off."""
    run = replace(run, launches=tuple(replace(launch, atomics=True) for launch in run.launches))
    is_reversed, is_away = run.case.order is ProgramOrder.REVERSED, run.case.device.sm_count in SM_COUNTS
    if not (everywhere or (is_reversed if reversed_only else is_away)):
        return run
    if isinstance(wanted, Case):
        return replace(run, ending=ending, launches=())
    return PairedRun(case=run.case, engine="virtual", ending=ending)


def followed(runner: Noting) -> list[Case]:
    """The companions that were run as cases, too."""
    besides = {one.case.digest for one in runner.submitted if isinstance(one, PairedRunRequest)}
    return [one for one in runner.submitted if isinstance(one, Case) and one.digest in besides]


def judge_of(*oracles: str) -> Judge:
    return Judge(oracles=tuple(map(registry.find, oracles)))


@pytest.mark.parametrize("ending", [CRASHED, deadlocked()])
def test_a_companion_that_breaks_off_is_run_as_a_case_of_its_own_and_found(ending: Ending) -> None:
    runner = Breaking(clean, ending=ending)
    tally = search(runner, judge_of("sm-invariance", "completes"))
    (sighting,) = tally.in_order()
    besides = {one.case.digest for one in runner.submitted if isinstance(one, PairedRunRequest)}
    again = followed(runner)
    assert sighting.fail.oracle == "completes"
    assert sorted(one.digest for one in again) == sorted(besides)
    away = sum(isinstance(one, Case) and one.device.sm_count in SM_COUNTS for one in runner.submitted)
    assert (sighting.count, tally.cases) == (away, 120 + len(besides))


def test_a_companion_that_gets_stuck_in_reversed_order_is_a_warning_about_its_case_and_no_case_of_its_own() -> None:
    runner = Breaking(clean, ending=deadlocked(), reversed_only=True)
    tally = search(runner, judge_of("order-invariance", "completes"))
    assert [(one.fail.oracle, one.fail.signature.severity, one.count) for one in tally.in_order()] == [
        ("order-invariance", Severity.WARNING, 120)
    ]
    assert (tally.cases, tally.failed, followed(runner)) == (120, 120, [])


def test_a_companion_that_crashes_in_reversed_order_is_run_as_a_case_of_its_own() -> None:
    runner = Breaking(clean, reversed_only=True)
    tally = search(runner, judge_of("order-invariance", "completes"))
    assert [one.fail.oracle for one in tally.in_order()] == ["completes"]
    assert {one.order for one in followed(runner)} == {ProgramOrder.REVERSED}
    assert tally.cases == 240


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_seen_of_cases_and_their_companions_does_not_depend_on_which_comes_back_first(seed: int) -> None:
    """Away from home every case dies, and with every other config: of one case several companions do, and itself."""

    def breaks_off(run: Run, wanted: RunRequest) -> Run:
        odd = run.case.configs.get(KERNEL, 0) % 2 == 1
        return broken_off(run, wanted, CRASHED, everywhere=odd)

    class Steady(Noting):
        def run(self, wanted: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
            return breaks_off(super().run(wanted, patience=patience), wanted)

    class Shuffled(OutOfOrder):
        def run(self, wanted: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
            return breaks_off(super().run(wanted, patience=patience), wanted)

    judge = judge_of("sm-invariance", "config-invariance", "completes")
    expected = search(Steady(clean), judge)
    runner = Shuffled(clean, seed)
    found = search(runner, judge)
    runner.close()
    assert seen(found) == seen(expected)


def seen(tally: CampaignStatistics) -> object:
    firsts = [(one.fail, one.first.case, one.plainest.case, one.count) for one in tally.in_order()]
    return tally.cases, tally.verdicts, firsts


class LateCompiler:
    """Knows of each build once the campaign settles: the one at home takes too much shared memory."""

    def __init__(self) -> None:
        self.settled = False

    def of(self, launch: Launch) -> Resources | None:
        if not self.settled:
            return None
        return Resources(
            registers_per_thread=32,
            spill_bytes=0,
            shared_bytes=300_000 if launch.build == "at home" else 0,
            tensor_memory_columns=0,
            scratch_bytes_per_program=0,
            threads=128,
        )

    def settle(self) -> None:
        self.settled = True


def test_resources_that_are_known_late_are_judged_for_a_case_and_for_its_companion_that_broke_off() -> None:
    class Dying(Noting):
        """Away from home the process dies after a launch of another build."""

        def run(self, wanted: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
            run = super().run(wanted, patience=patience)
            away = run.case.device.sm_count in SM_COUNTS
            build = "away" if away else "at home"
            launches = tuple(replace(one, build=build, config_count=1) for one in run.launches)
            if away and not isinstance(wanted, Case):
                return PairedRun(case=run.case, engine="virtual", ending=CRASHED, launches=launches)
            return replace(run, launches=launches, ending=CRASHED if away else run.ending)

    oracles = tuple(map(registry.find, ("sm-invariance", "completes", "resources")))
    judge = Judge(oracles=oracles, resources=LateCompiler())
    runner = Dying(clean)
    tally = Campaign(replace(PLAN, budget=CaseBudget(cases=1)), runner, judge, Silent(), processes=1).run()
    assert [one.case.device.sm_count in SM_COUNTS for one in runner.submitted if isinstance(one, PairedRunRequest)] == [
        True
    ]
    assert {one.fail.oracle for one in tally.in_order()} == {"completes", "resources"}


# --- real processes --------------------------------------------------------------------------------------------------

FOLLOWED = Path(__file__).with_name("paired_run_suite.py")


def really_seen(op_name: str, sm_count: int | None, cases: int) -> list[tuple[str, Severity]]:
    """The oracles that failed in a search of one op of `followed`, in processes that launch its kernels."""
    (op,) = (one for one in load_suite(str(FOLLOWED)) if one.name == op_name)
    home = catalogue.find("rtx-pro-6000")
    options = Options(
        suites=(str(FOLLOWED),),
        ops=(op,),
        devices=(home.with_sm_count(sm_count) if sm_count else home,),
        budget=CaseBudget(cases=cases),
        seed=1,
        fixed_sm_count=True,
        processes=2,
    )
    with Session(options) as session:
        tally = Campaign(options.plan, session.pool, session.judge, Silent(), processes=session.processes).run()
    assert tally.abstained == 0, tally.reasons
    return [(one.fail.oracle, one.fail.signature.severity) for one in tally.in_order()]


@pytest.mark.slow
def test_a_scan_that_looks_back_at_the_program_before_is_warned_of_and_no_error() -> None:
    assert really_seen("scan", sm_count=2, cases=12) == [("order-invariance", Severity.WARNING)]


@pytest.mark.slow
def test_a_kernel_that_takes_too_much_is_found_though_its_op_raises_an_exception_with_one_sm() -> None:
    assert sorted(really_seen("product", sm_count=None, cases=1)) == [
        ("completes", Severity.ERROR),
        ("resources", Severity.ERROR),
    ]
