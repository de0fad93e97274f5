"""The zoo: every kernel of `suites/zoo` runs, and no oracle but `precision` complains, which only warns."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import catalogue
from harness.model.case import Case
from harness.model.verdict import Fail, Outcome, Severity
from harness.search.campaign import Campaign, CampaignWorkers
from harness.search.campaign_plan import CampaignPlan, CaseBudget
from harness.search.campaign_statistics import CampaignStatistics, Trial
from harness.search.options import Options
from harness.search.session import Session
from harness.suite import load_suite

pytestmark = pytest.mark.slow

FILES = sorted((Path(__file__).parents[2] / "suites" / "zoo").glob("*.py"))
DEVICE = catalogue.find("b200")
CASES_PER_OP = 2
BY_DAY = ("atomics", "norms", "pointwise")
PARAMS = [
    pytest.param(file, id=file.stem, marks=pytest.mark.both if file.stem in BY_DAY else pytest.mark.nightly)
    for file in FILES
]


class Unwatched:
    def tick(self, statistics: CampaignStatistics, trying: Case | None) -> None:
        pass

    def sighted(self, fail: Fail, trial: Trial) -> None:
        pass


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """One session for all files, so that Triton is loaded once."""
    options = Options(
        suites=tuple(map(str, FILES)),
        ops=(),
        devices=(DEVICE,),
        budget=CaseBudget(cases=CASES_PER_OP),
        seed=1,
        processes=2,
        time_limit_s=60.0,
    )
    with Session(options) as opened:
        yield opened


@pytest.fixture(scope="module", params=PARAMS)
def searched(request: pytest.FixtureRequest, session: Session) -> tuple[set[str], CampaignStatistics]:
    """Return the names of a suite's ops, and the statistics of a short search."""
    ops = load_suite(str(request.param))
    plan = CampaignPlan(ops=ops, devices=(DEVICE,), budget=CaseBudget(cases=CASES_PER_OP * len(ops)), seed=1)
    workers = CampaignWorkers(runner=session.pool, processes=2)
    return {op.id for op in ops}, Campaign(plan, workers, session.judge, Unwatched()).run()


def test_every_op_completes_cases_and_has_its_values_checked(searched: tuple[set[str], CampaignStatistics]) -> None:
    ops, statistics = searched
    checked = {
        cell.op
        for cell, cases in statistics.verdicts.items()
        if cases and cell.oracle == "float64-values" and cell.outcome is not Outcome.ABSTAIN
    }
    assert (checked, statistics.abstained, statistics.suite_errors) == (ops, 0, [])


def test_no_oracle_complains_but_for_warnings_of_lost_digits(searched: tuple[set[str], CampaignStatistics]) -> None:
    _, statistics = searched
    assert {
        str(one) for one in statistics.sightings if one.severity is Severity.ERROR or one.oracle != "precision"
    } == set()
