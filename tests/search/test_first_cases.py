"""A campaign runs the first cases of its plan before all others, as far as the ops still have them."""

from dataclasses import replace

import pytest

from harness.model.case import Case, DType, Layout
from harness.model.op import Dim
from harness.search.campaign import Campaign, CampaignWorkers
from harness.search.campaign_plan import CampaignPlan, CaseBudget
from harness.search.campaign_statistics import CampaignStatistics
from harness.search.judge import Judge
from tests.search.fakes import DEVICE, OP, SIMPLEST, ImmediateRunner, Silent, clean, out_of_order, with_dims

PLAN = CampaignPlan(ops=(OP,), devices=(DEVICE,), budget=CaseBudget(cases=20), seed=5)
KEPT = with_dims(T=777)
OTHER = replace(with_dims(T=778), device=DEVICE.with_sm_count(20))


def search(plan: CampaignPlan) -> tuple[list[Case], CampaignStatistics]:
    runner = ImmediateRunner(clean)
    workers = CampaignWorkers(runner=runner, processes=1)
    statistics = Campaign(plan, workers, Judge(oracles=()), Silent()).run()
    return runner.ran, statistics


def test_first_cases_run_first_and_count() -> None:
    ran, statistics = search(replace(PLAN, first_cases=(KEPT, OTHER, KEPT)))
    assert (ran[:2], statistics.cases, statistics.dropped_cases) == ([KEPT, OTHER], 20, ())


def test_a_drawn_case_that_was_a_first_one_does_not_run_again() -> None:
    drawn, _ = search(PLAN)
    ran, _ = search(replace(PLAN, first_cases=(drawn[3],)))
    assert ran[: len(drawn) // 2] == [drawn[3], *drawn[:3], *drawn[4:]][: len(drawn) // 2]
    assert ran.count(drawn[3]) == 1


def test_the_same_first_cases_give_the_same_search() -> None:
    plan = replace(PLAN, budget=CaseBudget(cases=40), first_cases=(KEPT, OTHER, SIMPLEST))
    steady, _ = search(plan)
    with out_of_order(clean, seed=1) as runner:
        Campaign(plan, CampaignWorkers(runner=runner, processes=3), Judge(oracles=()), Silent()).run()
    assert {case.digest for case in runner.ran} == {case.digest for case in steady}


def test_cases_of_other_ops_and_devices_are_for_other_plans() -> None:
    elsewhere = (replace(KEPT, op="suites/a.py:other"), replace(KEPT, device=replace(DEVICE, slug="other")))
    ran, statistics = search(replace(PLAN, first_cases=elsewhere))
    assert (ran, statistics.dropped_cases) == (search(PLAN)[0], ())


def test_a_case_runs_on_the_device_as_it_is_known_today() -> None:
    before = replace(KEPT, device=replace(OTHER.device, l2_bytes=1))
    ran, _ = search(replace(PLAN, first_cases=(before,)))
    assert ran[0] == replace(KEPT, device=OTHER.device)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (replace(KEPT, dims={"T": 1, "D": 1}), "the case lacks the dim G"),
        (replace(KEPT, dims={**KEPT.dims, "K": 1}), "the op has no dim K"),
        (with_dims(T=4096), "the op allows no such dims and settings"),
        (replace(KEPT, dtype=DType.INT8), "the op has no type int8"),
        (replace(KEPT, options={"causal": True}), "the op has no option causal"),
        (replace(KEPT, absent=("x",)), "the op has no optional input x"),
        (replace(KEPT, layouts={"k": Layout.OFFSET}), "the op has no input k"),
        (replace(KEPT, layouts={"weight": Layout.PERMUTED}), "the op has no permuted weight"),
        (replace(KEPT, frozen=("bias",)), "the op has no gradient of bias"),
        (replace(KEPT, environment=(("USE_TMA", "1"),)), "the op has no variable USE_TMA"),
    ],
)
def test_a_case_that_no_longer_fits_is_dropped_and_named(case: Case, reason: str) -> None:
    ran, statistics = search(replace(PLAN, first_cases=(case, SIMPLEST)))
    assert (ran[0], statistics.dropped_cases) == (SIMPLEST, (f"{case}: {reason}",))


def test_a_setting_that_an_option_has_no_longer_is_named() -> None:
    op, case = replace(OP, options={"causal": (False,)}), replace(KEPT, options={"causal": True})
    _, statistics = search(replace(PLAN, ops=(op,), first_cases=(case,)))
    assert statistics.dropped_cases == (f"{case}: the op has no causal=True",)


def test_a_search_with_one_sm_count_drops_others() -> None:
    _, statistics = search(replace(PLAN, fixed_sm_count=True, first_cases=(OTHER,)))
    assert statistics.dropped_cases == (f"{OTHER}: the search has {DEVICE.sm_count} SMs",)


def test_a_narrower_range_drops_what_is_outside() -> None:
    op = replace(OP, dims={**OP.dims, "T": Dim(low=1, high=700)})
    _, statistics = search(replace(PLAN, ops=(op,), first_cases=(KEPT,)))
    assert statistics.dropped_cases == (f"{KEPT}: the op allows no such dims and settings",)
