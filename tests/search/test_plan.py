"""A time budget keeps time for triage."""

import pytest

from harness.search.plan import TimeBudget

pytestmark = pytest.mark.once

BUDGET = TimeBudget(seconds=180.0, triage_share=0.5, least_triage_s=60.0)


@pytest.mark.parametrize(("sightings", "cases", "reserve_s"), [(0, 1000, 0.0), (1, 1000, 60.0), (100, 100, 90.0)])
def test_triage_keeps_a_least_time_once_something_was_seen(sightings: int, cases: int, reserve_s: float) -> None:
    assert BUDGET.reserve_s(sightings, cases, 50.0) == reserve_s
