"""Two bugs of one kernel are two findings, and one bug is one finding, however many results and types show it."""

from pathlib import Path

import pytest

from harness import catalogue
from harness.search.campaign_plan import CaseBudget
from harness.search.options import Options
from harness.search.session import Session
from harness.suite import load_suite
from tests.planted.test_planted import Unwatched
from tests.search.fakes import KeptFindings
from tests.search.test_triage_queue import Observed

ROOT = Path(__file__).parents[2]
SUITE = str(Path(__file__).with_name("two_bugs_suite.py").relative_to(ROOT))


@pytest.mark.nightly  # two searches of fifty cases each, with their triage
@pytest.mark.slow
def test_each_bug_is_one_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    options = Options(
        suites=(SUITE,),
        ops=load_suite(SUITE),
        devices=(catalogue.find("rtx-pro-6000"),),
        budget=CaseBudget(cases=100),
        seed=1,
        fixed_sm_count=True,
        processes=2,
    )
    found = KeptFindings()
    with Session(options) as session:
        statistics = session.campaign(options.plan, Unwatched()).run()
        session.triage(statistics, Observed(), found.keep)
    seen = sorted((one.case.op_name, one.fail.signature.place, one.case.dims["T"]) for one in found.values())
    assert seen == [("one_bug", "y", 1), ("two_bugs", "y", 1), ("two_bugs", "z", 65)]
    dtypes = {case.dtype for one in found.values() if one.case.op_name == "one_bug" for case in one.cases}
    assert len(dtypes) == 3
