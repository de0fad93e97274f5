"""Shrinking keeps how far a number is off: NaN stays NaN, and a large error large."""

from collections.abc import Callable
from dataclasses import replace
from math import nan

import pytest

from harness.model.case import Case
from harness.model.run import ExactRun, Run
from harness.model.verdict import Extent, Fail, Severity, Signature
from harness.oracles import registry
from harness.search.campaign_statistics import CampaignStatistics, Sighting, Trial
from harness.search.judge import Judge
from harness.search.shrinking import ShrinkLimits
from harness.search.sort_key import sort_key
from harness.search.triage import Triage
from tests.oracles.facts import result
from tests.oracles.test_exact_values import comparison
from tests.search.fakes import DEVICE, OP, ImmediateRunner, clean, with_dims

JUDGE = Judge(oracles=(registry.find("float64-values"),))


def off_by(error: float, nonfinite: int = 0) -> Callable[[Case], Run]:
    """Return runs that are off by so much from 40 rows on, slightly off from 3 rows on, and right below."""

    def make(case: Case) -> Run:
        ratio = error if case.dims["T"] >= 40 else 1.2 if case.dims["T"] >= 3 else 0.1
        cells = nonfinite if case.dims["T"] >= 40 else 0
        return replace(clean(case), results=(result("y", whole=ratio, worst_tile=ratio, nonfinite=cells),))

    return make


def sighted(make: Callable[[Case], Run], *cases: Case) -> Sighting:
    statistics = CampaignStatistics()
    for number, case in enumerate(cases):
        trial = Trial(number=number, op=OP, case=case, batch=None, home_sm_count=DEVICE.sm_count)
        for fail in JUDGE.judge(OP, make(case), {}).fails:
            statistics.sight(fail, trial, sort_key(OP, case, DEVICE.sm_count))
    (sighting,) = statistics.in_order()
    return sighting


@pytest.mark.parametrize(
    ("make", "smallest"),
    [(off_by(500.0), 40), (off_by(nan, nonfinite=1), 40), (off_by(8.0), 3)],
    ids=["large", "NaN", "slight"],
)
def test_a_failure_shrinks_only_to_cases_that_are_as_far_off(make: Callable[[Case], Run], smallest: int) -> None:
    triage = Triage(runner=ImmediateRunner(make), judge=JUDGE, trying=lambda _: None)
    found = triage.finding(sighted(make, with_dims(T=900)), ShrinkLimits())
    assert (found.case, found.confirmed) == (with_dims(T=smallest), True)


def test_shrinking_begins_where_the_number_is_furthest_off() -> None:
    cases = (with_dims(T=5), with_dims(T=900), with_dims(T=300), with_dims(T=4))
    make = off_by(500.0)
    for order in (cases, cases[::-1]):
        assert sighted(make, *order).simplest.case == with_dims(T=300)


def fail(extent: Extent | None, severity: Severity = Severity.ERROR) -> Fail:
    signature = Signature(oracle="float64-values", severity=severity, op=OP.id, kernel="", place="y")
    return Fail(signature=signature, message="off", meaning="bad", extent=extent)


@pytest.mark.parametrize(
    ("smaller", "known", "is_as_bad"),
    [
        (fail(Extent.LARGE), fail(Extent.SLIGHT), True),
        (fail(Extent.SLIGHT), fail(Extent.LARGE), False),
        (fail(Extent.NOT_FINITE), fail(Extent.LARGE), False),
        (fail(Extent.LARGE), fail(Extent.NOT_FINITE), False),
        (fail(None), fail(None), True),
        (fail(Extent.LARGE, Severity.WARNING), fail(Extent.LARGE), False),
        (fail(Extent.LARGE), fail(Extent.LARGE, Severity.WARNING), True),
    ],
)
def test_a_smaller_case_is_as_bad(smaller: Fail, known: Fail, is_as_bad: bool) -> None:  # noqa: FBT001 - a parameter of the test
    assert smaller.is_as_bad_as(known) == is_as_bad


def test_an_error_does_not_shrink_to_a_note_on_rounding() -> None:
    """Below 40 rows an exact run shows that the algorithm is right, and loses digits."""

    def make(case: Case) -> Run:
        ratio = 2.0 if case.dims["T"] >= 3 else 0.1
        exact = (
            None if case.dims["T"] >= 40 else ExactRun(comparisons=(comparison(error=1e-6),), doubts=(), roundings=())
        )
        return replace(clean(case), results=(result("y", whole=ratio, worst_tile=ratio),), exact=exact)

    family = Judge(oracles=tuple(map(registry.find, sorted(registry.family("float64-values")))))
    (rounded,) = family.judge(OP, make(with_dims(T=5)), {}).fails
    assert (rounded.oracle, rounded.signature.severity) == ("precision", Severity.WARNING)
    triage = Triage(runner=ImmediateRunner(make), judge=family, trying=lambda _: None)
    found = triage.finding(sighted(make, with_dims(T=900)), ShrinkLimits())
    assert (found.fail.oracle, found.case) == ("float64-values", with_dims(T=40))
