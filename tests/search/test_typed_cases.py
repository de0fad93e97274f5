"""Cases of every element type: what is wrong only in that type is found, and a type that a GPU lacks is no finding."""

from pathlib import Path

import pytest

from harness import catalogue
from harness.model.case import DType
from harness.search.campaign import Campaign, CampaignWorkers
from harness.search.campaign_plan import CampaignPlan, CaseBudget
from harness.suite import load_suite
from tests.planted.test_planted import PROCESSES, Unwatched, search, session_of

ROOT = Path(__file__).parents[2]
SUITE = Path(__file__).with_name("typed_suite.py").relative_to(ROOT)
RIGHT = Path("suites", "zoo", "element_types.py")
"""Their names decide what is drawn, so they must not depend on the folder of the checkout."""


@pytest.mark.nightly
@pytest.mark.slow
def test_what_is_wrong_in_one_type_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    ops = load_suite(str(SUITE))
    found: dict[str, set[str]] = {}
    with session_of([SUITE], time_limit_s=60.0) as session:
        for op in ops:
            statistics = search(session, op, 16)
            found[op.name] = {sighting.fail.oracle for sighting in statistics.in_order()}
            assert not statistics.abstained, statistics.reasons
    assert found == {
        "summed_in_float32": {"precision"},
        "truncated_e4m3": {"float64-values"},
        "truncated_e5m2": {"float64-values"},
        "biased_by_126": {"float64-values"},
        "added_in_eight_bits": {"float64-values"},
        "added_in_floats": {"float64-values"},
    }
    assert {kind for op in ops for kind in op.dtypes} | {DType.FP8_E8M0} == set(DType) - {DType.BF16, DType.FP16}


@pytest.mark.slow
def test_a_type_that_the_gpu_lacks_is_declined_and_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (op,) = (op for op in load_suite(str(RIGHT)) if op.name == "affine_in_eight_bits")
    device = catalogue.find("a100")
    with session_of([RIGHT], time_limit_s=60.0) as session:
        plan = CampaignPlan(ops=(op,), devices=(device,), budget=CaseBudget(cases=6), seed=1, fixed_sm_count=True)
        workers = CampaignWorkers(runner=session.pool, processes=PROCESSES)
        statistics = Campaign(plan, workers, session.judge, Unwatched()).run()
    assert list(statistics.in_order()) == []
    (reason,) = statistics.reasons
    assert reason.endswith("type fp8e4nv not supported in this architecture")
