"""Several planted bugs in one search are one finding each, with their consequences as symptoms."""

from pathlib import Path

import pytest

from harness import catalogue
from harness.reports.finding_text import describe
from harness.search.campaign_plan import CaseBudget
from harness.search.options import Options
from harness.search.session import Session
from harness.suite import load_suite
from tests.planted.test_planted import FOLDER, Unwatched
from tests.search.fakes import KeptFindings
from tests.search.test_triage_queue import Observed

pytestmark = pytest.mark.slow

NAMES = ("contended_store", "misaligned_rows", "out_of_bounds_store", "store_into_gap", "uninitialised_read")


@pytest.mark.nightly
def test_each_planted_bug_is_one_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    suites = tuple(str(FOLDER / f"{name}.py") for name in NAMES)
    options = Options(
        suites=suites,
        ops=tuple(load_suite(suite)[0] for suite in suites),
        devices=(catalogue.find("rtx-pro-6000"),),
        budget=CaseBudget(cases=60),
        seed=1,
        processes=2,
        time_limit_s=60.0,
    )
    found = KeptFindings()
    with Session(options) as session:
        statistics = session.campaign(options.plan, Unwatched()).run()
        session.triage(statistics, Observed(), found.keep)
    causes = {finding.case.op_name: {one.oracle for one in finding.signatures} for finding in found.values()}
    assert (len(found), causes) == (
        len(NAMES),
        {
            "contended_store": {"write-overlap", "wrong-value", "order-invariance"},
            "misaligned_rows": {"descriptor-alignment"},
            "out_of_bounds_store": {"bounds"},
            "store_into_gap": {"bounds", "unwritten", "wrong-value"},
            "uninitialised_read": {"uninitialised-read", "wrong-value"},
        },
    ), "\n".join(f"{describe(one.case)}, {one.repeats}: {one.fail.message}" for one in found.values())
