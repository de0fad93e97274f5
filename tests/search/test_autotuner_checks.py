"""Which cases of a search check autotuners, and that each op with one gets every check early."""

from dataclasses import replace

import pytest

from harness.catalogue import find
from harness.execution.paired_run_policy import is_sampled
from harness.execution.reruns import AUTOTUNER_CHECKS, Rerun, autotuner_check, call_check, seed_asking
from harness.model.case import CallContext, Scale
from harness.model.paired_run import SecondRun
from harness.oracles import registry
from harness.search.campaign_plan import EXAMPLES, CaseBudget
from harness.search.judge import Judge
from harness.search.launch_feedback import LaunchFeedback
from harness.search.options import Options
from harness.search.strategies import Batch, sampled_scouts, scouts
from tests.search.fakes import DEVICE, KERNEL, OP, SIMPLEST, ImmediateRunner, clean
from tests.search.test_campaign import PLAN, search

OPTIONS = Options(suites=(), ops=(OP,), devices=(DEVICE,), budget=CaseBudget(cases=1), seed=1)


def test_sampled_scouts_of_an_autotuned_op_have_every_check() -> None:
    for threads in (False, True):
        sampled = sampled_scouts(replace(OP, threads=threads), DEVICE, LaunchFeedback(configs={KERNEL: 6}))
        assert set(map(autotuner_check, sampled)) == set(AUTOTUNER_CHECKS) - (set() if threads else {Rerun.THREADS})


def test_graphs_of_intel_gpus_are_not_checked() -> None:
    case = replace(SIMPLEST, seed=seed_asking(0, {SecondRun.GRAPH}))
    assert call_check(replace(OP, graphs=True), case) is Rerun.GRAPH
    assert call_check(replace(OP, graphs=True), replace(case, device=find("pvc"))) is None


def test_other_ops_get_no_such_cases() -> None:
    assert tuple(sampled_scouts(OP, DEVICE, LaunchFeedback())) == scouts(OP, DEVICE)


@pytest.mark.parametrize("check", AUTOTUNER_CHECKS)
def test_a_named_oracle_gets_its_check_in_every_drawn_case(check: Rerun) -> None:
    plan = replace(PLAN, second_runs=frozenset({SecondRun(check.value)}))
    runner = ImmediateRunner(clean)
    search(runner, plan, Judge(oracles=(registry.find("write-overlap"),)))
    usual = [case for case in runner.ran if case.scale is Scale.USUAL and case.context is CallContext.MAIN]
    assert {autotuner_check(case) for case in usual} == {check}
    assert len(usual) > 60


def test_several_named_oracles_take_turns() -> None:
    seeds = [seed_asking(seed, {SecondRun.TUNING, SecondRun.THREADS}) for seed in range(0, 800, 7)]
    checks = {autotuner_check(replace(SIMPLEST, seed=seed)) for seed in seeds}
    assert checks == {Rerun.TUNING, Rerun.THREADS}


def test_other_second_runs_leave_the_seed_alone() -> None:
    assert seed_asking(13, {SecondRun.ORDER, SecondRun.LANE_FILL}) == 13
    assert is_sampled(replace(SIMPLEST, seed=seed_asking(13, {SecondRun.SM_COUNT})))


def test_naming_an_oracle_asks_for_its_second_runs() -> None:
    def plan_for(*oracles: str) -> frozenset[SecondRun]:
        return replace(OPTIONS, oracles=oracles).plan.second_runs

    assert plan_for() == plan_for("bounds", "float64-values") == frozenset()
    assert plan_for("autotuner-key", "bounds") == {SecondRun.KEYS}
    assert plan_for("autotuner-choice") == {SecondRun.TUNING}
    assert replace(OPTIONS, oracles=("wrong-value",)).needs_exact_runs
    assert not replace(OPTIONS, oracles=("wrong-value", "precision", "float64-values")).needs_exact_runs


def test_one_drawn_case_in_four_gets_the_second_runs_unless_kernels_are_autotuned() -> None:
    def sampled(feedback: LaunchFeedback) -> list[bool]:
        batches = (
            Batch(
                op=OP,
                device=DEVICE,
                feedback=feedback,
                seed=seed,
                size=EXAMPLES,
                second_runs=frozenset({SecondRun.LATER}),
                second_runs_one_in=4,
            )
            for seed in range(20)
        )
        return [is_sampled(case) for batch in batches for case in batch.draw()]

    drawn = sampled(LaunchFeedback())
    assert 0.15 <= sum(drawn) / len(drawn) <= 0.35
    assert all(sampled(LaunchFeedback(configs={KERNEL: 6})))
