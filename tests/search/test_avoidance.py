"""A campaign goes on behind a bug: it avoids what always ends early, and sets aside what never completes."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.model.avoided import AvoidedDraws, SetAsideOp
from harness.model.case import Case
from harness.model.op import Dim
from harness.model.run import Ending, OutOfMemory, Raised, Refused, Run, Unsupported
from harness.oracles import registry
from harness.search.avoidance import KEEP_ONE_IN, SET_ASIDE_AFTER
from harness.search.campaign import Campaign, CampaignWorkers
from harness.search.campaign_plan import BATCH_SIZE, CampaignPlan, CaseBudget
from harness.search.campaign_statistics import CampaignStatistics, Trial
from harness.search.case_queue import CaseQueue
from harness.search.judge import Judge
from harness.search.options import Options
from harness.search.runner import Runner
from harness.search.session import Session
from harness.search.triage import Triage
from harness.suite import load_suite
from tests.search.fakes import DEVICE, KERNEL, OP, ImmediateRunner, Shows, Silent, clean, facts, never, out_of_order

MODES = replace(OP, options={"mode": tuple(f"mode{number}" for number in range(12))})
"""Only the last mode works in most tests, so few cases complete."""
PLAN = CampaignPlan(ops=(MODES,), devices=(DEVICE,), budget=CaseBudget(cases=160), seed=6, fixed_sm_count=True)
BLIND = replace(PLAN, avoids=False)
"""The same without avoidance."""
JUDGE = Judge(oracles=(registry.find("completes"), registry.find("write-overlap")))


def raising(raises: Shows, overlaps: Shows = never) -> Callable[[Case], Run]:
    """Return a maker of runs that end early where `raises` is true, and else store twice where `overlaps` is."""
    ending = Raised(kind="TypeError", message="no such mode", source=None, phase="forward", traceback="")

    def make(case: Case) -> Run:
        return replace(facts(case, never), ending=ending) if raises(case) else facts(case, overlaps)

    return make


def search(runner: Runner, plan: CampaignPlan = PLAN) -> CampaignStatistics:
    return Campaign(plan, CampaignWorkers(runner=runner, processes=3), JUDGE, Silent()).run()


def is_grouped(case: Case) -> bool:
    return case.dims["G"] > 1


def has_broken_mode(case: Case) -> bool:
    return case.options["mode"] != "mode11"


# --- rules -----------------------------------------------------------------------------------------------------------


def test_later_draws_avoid_what_always_ends_early() -> None:
    runner = ImmediateRunner(raising(is_grouped))
    statistics = search(runner)
    assert (statistics.cases, len(runner.ran)) == (160, 160)
    early, late = runner.ran[: 3 * BATCH_SIZE], runner.ran[6 * BATCH_SIZE :]
    assert sum(map(is_grouped, early)) > len(early) / 3
    assert 0 < sum(map(is_grouped, late)) <= len(late) / KEEP_ONE_IN + 1
    grouped = sum(map(is_grouped, runner.ran))
    (avoided,) = statistics.avoided
    assert avoided == AvoidedDraws(op=MODES.id, rule="G > 1", cases=grouped, failed=grouped, dropped=avoided.dropped)
    assert avoided.dropped > grouped


def test_draws_are_the_same_until_a_rule_is_known() -> None:
    avoiding, blind = ImmediateRunner(raising(is_grouped)), ImmediateRunner(raising(is_grouped))
    search(avoiding)
    search(blind, BLIND)
    assert avoiding.ran[: 2 * BATCH_SIZE] == blind.ran[: 2 * BATCH_SIZE]
    assert avoiding.ran != blind.ran


@pytest.mark.parametrize("seed", [1, 2])
def test_avoidance_does_not_depend_on_the_order_of_runs(seed: int) -> None:
    plan = replace(PLAN, ops=(MODES, replace(MODES, name="rms_norm")))
    make = raising(lambda case: case.op_name == "rms_norm" or is_grouped(case))
    steady = ImmediateRunner(make)
    expected = search(steady, plan)
    with out_of_order(make, seed) as runner:
        found = search(runner, plan)
    assert {case.digest for case in runner.ran} == {case.digest for case in steady.ran}
    assert (found.avoided, found.set_aside) == (expected.avoided, expected.set_aside)
    assert found.avoided
    assert found.set_aside


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(clean, id="clean"),
        pytest.param(raising(never, is_grouped), id="failures of cases that complete"),
        pytest.param(raising(lambda case: case.dims["T"] % 7 == 0), id="no rule"),
        pytest.param(raising(lambda _: True), id="the only op"),
    ],
)
def test_a_campaign_without_a_rule_draws_what_it_always_drew(make: Callable[[Case], Run]) -> None:
    avoiding, blind = ImmediateRunner(make), ImmediateRunner(make)
    statistics = search(avoiding)
    search(blind, BLIND)
    assert avoiding.ran == blind.ran
    assert (statistics.avoided, statistics.set_aside) == ((), ())


@pytest.mark.parametrize("seed", [1, 2])
def test_a_bug_behind_an_option_shows_more_often_with_rules(seed: int) -> None:
    def overlaps(case: Case) -> bool:
        return case.dims["G"] == 4 and case.dims["T"] % 4 == 3

    make = raising(has_broken_mode, overlaps)
    counts = Counter[bool]()
    for avoids in (True, False):
        statistics = search(ImmediateRunner(make), replace(PLAN, seed=seed, avoids=avoids))
        counts[avoids] = sum(one.count for one in statistics.sightings.values() if one.fail.oracle == "write-overlap")
    assert counts[True] > 2 * counts[False]


def test_the_few_cases_kept_find_what_is_behind_a_rule() -> None:
    runner = ImmediateRunner(raising(lambda case: is_grouped(case) and len(runner.ran) < 100))
    statistics = search(runner, replace(PLAN, seed=5, budget=CaseBudget(cases=240)))
    assert any(one.rule == "G > 1" and one.failed < one.cases for one in statistics.avoided)
    late = runner.ran[-4 * BATCH_SIZE :]
    assert sum(map(is_grouped, late)) > 2 * len(late) / KEEP_ONE_IN


def test_an_op_with_few_cases_runs_those_that_are_avoided_last() -> None:
    small = replace(
        OP,
        dims={"T": Dim(low=1, high=1), "D": Dim(low=1, high=1), "G": Dim(low=1, high=2, choices=(1, 2))},
        inputs={},
        dtypes=OP.dtypes[:1],
    )
    plan = replace(PLAN, ops=(small,), budget=CaseBudget(cases=10**6))
    make = raising(is_grouped)
    avoiding, blind = (ImmediateRunner(lambda case: replace(make(case), launches=())) for _ in range(2))
    statistics = search(avoiding, plan)
    search(blind, replace(plan, avoids=False))
    assert statistics.avoided
    assert sum(map(is_grouped, avoiding.ran)) > 0.8 * sum(map(is_grouped, blind.ran))


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(Refused(message="no groups"), id="refused"),
        pytest.param(
            Unsupported(what="tt.histogram", kernel=KERNEL, source=None, triton_version="3.6.0"), id="unsupported"
        ),
        pytest.param(OutOfMemory(limit_bytes=2**30, message=""), id="out of memory"),
        pytest.param(
            Raised(kind="TypeError", message="", source=None, phase="reference", traceback=""), id="the suite's mistake"
        ),
    ],
)
def test_what_the_library_did_not_end_gives_no_rule(ending: Ending) -> None:
    statistics = search(
        ImmediateRunner(lambda case: replace(clean(case), ending=ending) if is_grouped(case) else clean(case))
    )
    assert (statistics.avoided, statistics.set_aside) == ((), ())


# --- ops -------------------------------------------------------------------------------------------------------------

BOTH = replace(PLAN, ops=(OP, replace(OP, name="rms_norm")))


def is_broken(case: Case) -> bool:
    return case.op_name == "rms_norm"


def test_an_op_that_always_fails_leaves_its_time_to_others() -> None:
    runner = ImmediateRunner(raising(is_broken))
    statistics = search(runner, BOTH)
    late = runner.ran[80:]
    assert sum(map(is_broken, late)) <= len(late) / KEEP_ONE_IN + BATCH_SIZE
    assert SET_ASIDE_AFTER <= sum(map(is_broken, runner.ran)) < len(runner.ran) / 3
    (one,) = statistics.set_aside
    failed = sum(map(is_broken, runner.ran))
    assert one == SetAsideOp(op=BOTH.ops[1].id, device=DEVICE.slug, cases=failed, completed=0, batches=one.batches)
    assert one.batches > 0


def test_an_op_that_is_always_refused_leaves_its_time_too() -> None:
    def refused(case: Case) -> Run:
        return replace(clean(case), ending=Refused(message="not here")) if is_broken(case) else clean(case)

    runner = ImmediateRunner(refused)
    statistics = search(runner, BOTH)
    (one,) = statistics.set_aside
    assert (one.op, one.cases, one.completed) == (BOTH.ops[1].id, sum(map(is_broken, runner.ran)), 0)
    assert one.cases < len(runner.ran) / 3


def test_an_op_is_set_aside_on_the_device_where_it_fails() -> None:
    h200 = replace(DEVICE, slug="h200")
    plan = replace(PLAN, ops=(OP,), devices=(DEVICE, h200), budget=CaseBudget(cases=240))
    runner = ImmediateRunner(raising(lambda case: case.device.slug == "h200"))
    statistics = search(runner, plan)
    assert [(one.op, one.device) for one in statistics.set_aside] == [(OP.id, "h200")]
    assert sum(case.device == DEVICE for case in runner.ran) > 2 * len(runner.ran) / 3


def test_an_op_that_completes_later_gets_its_turns_again() -> None:
    runner = ImmediateRunner(raising(lambda case: is_broken(case) and len(runner.ran) < 180))
    statistics = search(runner, replace(BOTH, budget=CaseBudget(cases=480)))
    (one,) = statistics.set_aside
    assert one.completed > 0
    assert sum(map(is_broken, runner.ran[-8 * BATCH_SIZE :])) >= 3 * BATCH_SIZE


def test_ops_that_all_fail_share_the_time() -> None:
    runner = ImmediateRunner(raising(lambda _: True))
    statistics = search(runner, BOTH)
    assert statistics.cases == 160
    assert sum(one.batches for one in statistics.set_aside) <= 2
    assert 60 < sum(map(is_broken, runner.ran)) < 100


# --- variants --------------------------------------------------------------------------------------------------------


def judged(queue: CaseQueue, make: Callable[[Case], Run], count: int) -> list[Trial]:
    """Take and judge `count` drawn cases."""
    done = list[Trial]()
    while len(done) < count and (taken := queue.take()):
        batch, trial = taken
        if batch is None:
            continue
        queue.record(batch, trial, JUDGE.judge(trial.op, make(trial.case), {}))
        done.append(trial)
    return done


def variants(queue: CaseQueue) -> list[Case]:
    """Return the first variants of the queue."""
    taken = list[Case]()
    while len(taken) < 3000 and (trial := queue.take_value_variant()):
        taken.append(trial.case)
    return taken


VARIED = replace(PLAN, ops=(OP,), adds_variants=True, budget=CaseBudget(cases=10**6))


def test_a_case_with_errors_has_few_variants() -> None:
    def stores(case: Case) -> Run:
        run = facts(case, lambda _: True)
        return replace(run, memory=tuple(replace(event, same_bytes=False) for event in run.memory))

    count = {}
    for name, make in (("clean", clean), ("warned", raising(never, lambda _: True)), ("failed", stores)):
        queue = CaseQueue(VARIED)
        judged(queue, make, 2)
        count[name] = len(variants(queue))
    assert count["clean"] == count["warned"] > 8 * count["failed"] > 0


def test_variants_avoid_what_draws_avoid() -> None:
    make = raising(lambda case: case.values == "zeros")
    queue = CaseQueue(VARIED)
    judged(queue, make, 8 * BATCH_SIZE)
    taken = variants(queue)
    zeros = sum(case.values == "zeros" for case in taken)
    assert 0 < zeros <= len(taken) / KEEP_ONE_IN + 1


# --- real kernels ----------------------------------------------------------------------------------------------------

PROJECT = Path(__file__).parents[2]
SUITE = "tests/search/avoidance_suite.py"
"""A relative name: names of ops decide draws, and must not depend on where the project is."""


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    options = Options(
        suites=(SUITE,),
        project=PROJECT,
        ops=(),
        devices=(DEVICE,),
        budget=CaseBudget(cases=1),
        seed=0,
        processes=2,
    )
    with Session(options) as opened:
        yield opened


def search_with(session: Session, *names: str, cases: int, avoids: bool = True) -> CampaignStatistics:
    ops = tuple(op for op in load_suite(SUITE, PROJECT) if op.name in names)
    plan = CampaignPlan(
        ops=ops, devices=(DEVICE,), budget=CaseBudget(cases=cases), seed=0, fixed_sm_count=True, avoids=avoids
    )
    return Campaign(plan, CampaignWorkers(runner=session.pool, processes=2), session.judge, Silent()).run()


@pytest.mark.slow
class TestWithRealKernels:
    @pytest.mark.nightly
    def test_a_bug_behind_an_option_is_found_with_its_rule(self, session: Session) -> None:
        def unwritten(statistics: CampaignStatistics) -> int:
            return sum(one.count for one in statistics.sightings.values() if one.fail.oracle == "unwritten")

        statistics = search_with(session, "hidden_behind_an_option", cases=300)
        blind = search_with(session, "hidden_behind_an_option", cases=300, avoids=False)
        assert unwritten(statistics) >= 3 * max(1, unwritten(blind))
        assert statistics.passed > 5 * blind.passed
        (avoided,) = statistics.avoided
        assert (avoided.rule, avoided.failed) == ("mode is not mode29", avoided.cases)
        raised = next(one for one in statistics.sightings.values() if one.fail.oracle == "completes")
        triage = Triage(runner=session.pool, judge=session.judge, trying=lambda _: None)
        finding = triage.unconfirmed(raised)
        others = statistics.cases - avoided.cases
        rule = f"every case with mode is not mode29: {avoided.cases} of {avoided.cases}; none of {others} others"
        assert finding.rule == rule

    def test_an_op_that_never_completes_leaves_its_cases_to_another(self, session: Session) -> None:
        statistics = search_with(session, "always_broken", "sound", cases=300)
        (one,) = statistics.set_aside
        assert one.op.endswith(":always_broken")
        assert one.cases + statistics.passed == 300
        assert statistics.passed > 200
