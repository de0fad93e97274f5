"""The counts of a campaign add up, and each op gets checks of the rarer kinds early."""

from collections import Counter
from dataclasses import replace

import pytest

from harness import catalogue
from harness.findings.campaign_report import report_of
from harness.model.case import Case, Scale
from harness.model.op import Dim
from harness.model.paired_run import SecondRun
from harness.model.run import Run
from harness.model.verdict import Outcome
from harness.oracles import registry
from harness.search.campaign import Campaign, CampaignWorkers
from harness.search.campaign_plan import CampaignPlan, CaseBudget
from harness.search.campaign_statistics import CampaignStatistics
from harness.search.judge import Judge
from harness.search.options import Options
from tests.search.fakes import DEVICE, OP, ImmediateRunner, Silent, clean, facts, unsupported
from tests.search.test_campaign import Compiler, overlaps

A100 = catalogue.find("a100")
GROWING = replace(OP, name="growing", dims={**OP.dims, "T": Dim(low=1, high=2048, grows=True)})
OTHERS = tuple(replace(OP, name=f"op{number}") for number in range(4))
OPTIONS = Options(
    suites=("suites/fla/norm.py",), ops=(GROWING, *OTHERS), devices=(DEVICE, A100), budget=CaseBudget(cases=120), seed=5
)


def mixed(case: Case) -> Run:
    """Return a run that fails, abstains or passes, by the case's sizes and its device."""
    if case.op_name == "op1" or case.dims["D"] % 3 == 1:
        return unsupported(case)
    if case.device.slug == A100.slug and case.op_name == "op2":
        return replace(clean(case), launches=())
    return facts(case, overlaps)


def search(plan: CampaignPlan, judge: Judge | None = None) -> tuple[CampaignStatistics, ImmediateRunner]:
    runner = ImmediateRunner(mixed)
    campaign = Campaign(plan, CampaignWorkers(runner=runner, processes=3), judge or Judge(), Silent())
    return campaign.run(), runner


def assert_sums(statistics: CampaignStatistics) -> None:
    report = report_of(OPTIONS, statistics, (), interrupted=False)
    assert report.cases == report.passed + report.failed + report.abstained
    assert (report.passed, report.failed, report.abstained) == tuple(
        sum(getattr(row, outcome) for row in report.op_checks) for outcome in ("passed", "failed", "abstained")
    )
    sizes = Counter[Outcome]()
    for size in report.tested_sizes:
        sizes[size.outcome] += size.cases
    assert sizes == +Counter(
        {Outcome.PASS: report.passed, Outcome.FAIL: report.failed, Outcome.ABSTAIN: report.abstained}
    )
    by_oracle = Counter[tuple[str, str, str]]()
    for row in report.verdicts:
        by_oracle[row.op, row.device, row.oracle] += row.cases
    cases = {(row.op, row.device): row.cases for row in report.op_checks}
    assert {key: cases[key[:2]] for key in by_oracle} == by_oracle


def test_all_counts_of_a_report_add_up() -> None:
    statistics, _ = search(OPTIONS.plan)
    assert (statistics.cases, min(statistics.passed, statistics.failed, statistics.abstained) > 0) == (120, True)
    assert_sums(statistics)


def test_a_case_that_fails_late_counts_as_failed() -> None:
    judge = Judge(oracles=(registry.find("resources"), registry.find("completes")), resources=Compiler())

    def untuned(case: Case) -> Run:
        run = clean(case)
        return replace(run, launches=tuple(replace(launch, config_count=1) for launch in run.launches))

    workers = CampaignWorkers(runner=ImmediateRunner(untuned), processes=3)
    statistics = Campaign(OPTIONS.plan, workers, judge, Silent()).run()
    assert (statistics.failed, len(statistics.in_order())) == (1, 1)
    assert_sums(statistics)


def test_an_oracle_with_several_verdicts_on_a_case_counts_once() -> None:
    def twice(case: Case) -> Run:
        run = facts(case, lambda _: True)
        (overlap,) = run.memory
        elsewhere = replace(overlap, site=replace(overlap.site, argument="dw", source=None))
        return replace(run, memory=(overlap, elsewhere))

    workers = CampaignWorkers(runner=ImmediateRunner(twice), processes=3)
    statistics = Campaign(OPTIONS.plan, workers, Judge(), Silent()).run()
    assert len(statistics.in_order()) > 1
    assert_sums(statistics)


@pytest.mark.parametrize("cases", [25, 120])
def test_each_growing_op_gets_an_oversized_case_early(cases: int) -> None:
    ops = tuple(replace(GROWING, name=f"growing{number}") for number in range(4))
    runner = ImmediateRunner(clean)
    plan = replace(OPTIONS.plan, ops=ops, budget=CaseBudget(cases=cases))
    Campaign(plan, CampaignWorkers(runner=runner, processes=3), Judge(oracles=()), Silent()).run()
    scouted = [case for case in runner.ran[:25] if case.scale is Scale.OVERSIZED]
    assert [(case.op_name, case.device.slug) for case in scouted[:4]] == [
        ("growing0", DEVICE.slug),
        ("growing1", DEVICE.slug),
        ("growing2", DEVICE.slug),
        ("growing3", DEVICE.slug),
    ]


def test_checks_of_the_rarer_kinds_are_counted_by_op() -> None:
    statistics, runner = search(OPTIONS.plan)
    report = report_of(OPTIONS, statistics, (), interrupted=False)
    rows = {(row.op, row.device): row for row in report.op_checks}
    here = rows[GROWING.id, DEVICE.slug]
    oversized = [case for case in runner.ran if case.scale is Scale.OVERSIZED and case.dims["D"] % 3 != 1]
    assert (here.oversized > 0, here.may_be_oversized) == (bool(oversized), True)
    assert rows[OTHERS[0].id, DEVICE.slug].may_be_oversized is False
    assert (here.second_runs[SecondRun.SM_COUNT] > 0, here.second_runs[SecondRun.CONFIG] > 0) == (True, True)
    assert SecondRun.ORDER not in here.second_runs
    assert (here.builds, here.compiled_builds) == (1, 0)
    assert report.untried["resources of kernels"][0] == GROWING.id


@pytest.mark.parametrize(
    ("oracles", "may_be_oversized"),
    [
        (("completes",), True),
        (("completes", "bounds"), True),
        (("completes", "float64-values"), False),
    ],
)
def test_oversized_cases_count_for_the_oracles_that_check_them(
    oracles: tuple[str, ...], *, may_be_oversized: bool
) -> None:
    report = report_of(replace(OPTIONS, oracles=oracles), CampaignStatistics(), (), interrupted=False)
    assert {row.may_be_oversized for row in report.op_checks if row.op == GROWING.id} == {may_be_oversized}


def test_ops_without_a_checked_case_are_named() -> None:
    statistics, _ = search(OPTIONS.plan)
    report = report_of(OPTIONS, statistics, (), interrupted=False)
    assert [(one.op, one.device) for one in report.unchecked] == [(OTHERS[1].id, ""), (OTHERS[2].id, A100.slug)]
    assert report.unchecked[1].reason.endswith("no kernel was launched")


def test_ops_that_the_budget_never_reached_are_named() -> None:
    statistics, _ = search(replace(OPTIONS.plan, budget=CaseBudget(cases=4)))
    report = report_of(OPTIONS, statistics, (), interrupted=False)
    assert {str(one) for one in report.unchecked_ops} >= {"op3 (no case ran)"}
