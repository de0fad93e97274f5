"""Results of another structure are the library's fault if another case of the op agrees, otherwise the suite's."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.model.case import Case
from harness.model.run import FormMismatch, ResultForm, Run
from harness.oracles import registry
from harness.search.campaign import Campaign, CampaignWorkers
from harness.search.campaign_plan import CampaignPlan, CaseBudget
from harness.search.campaign_statistics import CampaignStatistics
from harness.search.judge import Judge
from harness.search.structure_doubts import WRONG_SUITE
from tests.search.fakes import DEVICE, KERNEL, OP, Silent, compared, facts, out_of_order

JUDGE = Judge(oracles=tuple(map(registry.find, ("write-overlap", "result-structure", "float64-values"))))
CASES = 60
FLAT = FormMismatch(
    name="y", got=ResultForm(kind="float32", shape=(6,)), expected=ResultForm(kind="float32", shape=(2, 3))
)


def search(is_wrong: Callable[[Case], bool], overlaps: Callable[[Case], bool], seed: int = 0) -> CampaignStatistics:
    def run(case: Case) -> Run:
        made = facts(case, overlaps)
        return replace(made, mismatches=(FLAT,)) if is_wrong(case) else compared(made)

    plan = CampaignPlan(ops=(OP,), devices=(DEVICE,), budget=CaseBudget(cases=CASES), seed=5, fixed_sm_count=True)
    with out_of_order(run, seed) as runner:
        return Campaign(plan, CampaignWorkers(runner=runner, processes=3), JUDGE, Silent()).run()


def never(case: Case) -> bool:
    del case
    return False


def always(case: Case) -> bool:
    del case
    return True


def many_rows(case: Case) -> bool:
    return case.dims["T"] > 1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_agreeing_case_makes_the_others_findings(seed: int) -> None:
    statistics = search(many_rows, never, seed)
    (sighting,) = statistics.sightings.values()
    assert str(sighting.fail.signature) == "result-structure: layer_norm y shape"
    assert sighting.count == statistics.failed > 0
    assert statistics.passed == CASES - statistics.failed > 0
    assert statistics.suite_errors == []


def test_without_an_agreeing_case_the_suite_is_wrong() -> None:
    statistics = search(always, never)
    assert statistics.sightings == {}
    assert (statistics.cases, statistics.abstained) == (CASES, CASES)
    assert statistics.reasons[WRONG_SUITE] == CASES
    (message,) = statistics.suite_errors
    assert message.startswith(
        f"suites/fla/norm.py: op 'layer_norm' and its reference return different structures in each of {CASES} cases: "
        "y is float32 of shape (6,) where the definition gives float32 of shape (2, 3) (layer_norm T="
    )
    assert message.endswith("): make the reference return what the op returns")


def test_other_failures_of_a_wrong_suite_count() -> None:
    statistics = search(always, many_rows)
    assert [str(one) for one in statistics.sightings] == [f"write-overlap: {KERNEL} layernorm.py:431"]
    assert statistics.failed + statistics.abstained == CASES
    assert len(statistics.suite_errors) == 1
