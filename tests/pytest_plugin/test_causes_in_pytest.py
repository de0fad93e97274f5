"""A test of pytest fails for causes, and not once more for each of their symptoms."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from harness.model.finding import Finding
from harness.pytest_plugin.sessions import Searches
from harness.search.campaign_statistics import Sighting
from tests.reports.samples import CAUSE, OVERLAP, STRAY, VALUES

pytestmark = pytest.mark.once


def sighting(finding: Finding) -> Any:
    return SimpleNamespace(fail=finding.fail)


class Triaging:
    """A session whose triage finds that one failure explains two others."""

    def not_tried(self, seen: Any) -> Finding:
        return next(one for one in (OVERLAP, VALUES, STRAY) if one.fail == seen.fail)

    def triage(self, statistics: Any, observer: Any, keep: Callable[[Sighting, Finding], None]) -> None:
        del statistics, observer
        keep(sighting(VALUES), VALUES)
        keep(sighting(OVERLAP), CAUSE)


def test_the_symptoms_of_a_cause_are_no_findings_of_a_test(pytestconfig: pytest.Config) -> None:
    seen = [sighting(one) for one in (VALUES, STRAY, OVERLAP)]
    statistics: Any = SimpleNamespace(sightings={one.fail.signature: one for one in seen}, in_order=lambda: seen)
    session: Any = Triaging()
    assert Searches(pytestconfig).findings(session, statistics) == [CAUSE]
