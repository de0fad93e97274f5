"""Triage shrinks one failure of each cause, and what its smallest case does not show is triaged by itself."""

from collections.abc import Callable
from dataclasses import replace

from harness.model.case import Case
from harness.model.finding import Confirmation, Finding
from harness.model.run import Overlap, Run
from harness.oracles import registry
from harness.search.campaign_statistics import CampaignStatistics, Sighting, Trial
from harness.search.cause_groups import join_untried
from harness.search.deadline import Deadline
from harness.search.judge import Judge
from harness.search.shrinking import ShrinkLimits
from harness.search.triage import Triage, unconfirmed
from harness.search.triage_queue import TriageQueue
from tests.oracles.facts import result
from tests.search.fakes import DEVICE, OP, ImmediateRunner, KeptFindings, facts, with_dims
from tests.search.test_triage_queue import Observed

JUDGE = Judge(oracles=(registry.find("write-overlap"), registry.find("float64-values")))
CASES = tuple(with_dims(T=rows) for rows in (200, 300, 400))


def runs(*, wrong_from: int) -> Callable[[Case], Run]:
    """Return runs that overlap, with different bytes, from 3 rows on, and have a wrong result from `wrong_from` on."""

    def make(case: Case) -> Run:
        run = facts(case, lambda case: case.dims["T"] >= 3)
        overlaps = tuple(replace(event, same_bytes=False) for event in run.memory if isinstance(event, Overlap))
        error = 9.0 if case.dims["T"] >= wrong_from else 0.1
        return replace(run, memory=overlaps, results=(result("y", whole=error, worst_tile=error),))

    return make


def seen(make: Callable[[Case], Run]) -> CampaignStatistics:
    """Return what a search of these runs counts."""
    statistics = CampaignStatistics()
    for number, case in enumerate(CASES):
        trial = Trial(number=number, op=OP, case=case, batch=None, home_sm_count=DEVICE.sm_count)
        for fail in JUDGE.judge(OP, make(case), {}).fails:
            statistics.sight(fail, trial, (number,))
    return statistics


def triaged(sightings: list[Sighting], make: Callable[[Case], Run], deadline: Deadline) -> list[Finding]:
    """Return the findings that are left: a finding drops those that its symptoms had."""
    kept = KeptFindings()
    queue = TriageQueue(
        lambda trying: Triage(runner=ImmediateRunner(make), judge=JUDGE, trying=trying),
        2,
        deadline,
        ShrinkLimits(runs=300, seconds=60.0),
    )
    queue.run(sightings, Observed(), kept.keep)
    return list(kept.values())


def test_a_cause_and_its_consequence_are_one_finding() -> None:
    (finding,) = triaged(seen(runs(wrong_from=3)).in_order(), runs(wrong_from=3), Deadline.after(60))
    assert (finding.fail.oracle, finding.case, finding.repeats.runs) == ("write-overlap", with_dims(T=3), 5)
    assert [(one.signature.oracle, one.sightings) for one in finding.symptoms] == [("float64-values", 3)]


def test_what_the_smallest_case_does_not_show_is_a_finding_of_its_own() -> None:
    overlap, wrong = triaged(seen(runs(wrong_from=100)).in_order(), runs(wrong_from=100), Deadline.after(60))
    assert [(one.fail.oracle, one.case, one.symptoms) for one in (overlap, wrong)] == [
        ("write-overlap", with_dims(T=3), ()),
        ("float64-values", with_dims(T=100), ()),
    ]
    assert wrong.repeats.shown == 5


def of_one_idiom() -> list[Sighting]:
    """Return a failure, and one of the same idiom in another kernel."""
    statistics = CampaignStatistics()
    (fail,) = JUDGE.only("write-overlap").judge(OP, runs(wrong_from=3)(CASES[0]), {}).fails
    for number, kernel in enumerate(("first_kernel", "second_kernel")):
        trial = Trial(number=number, op=OP, case=CASES[number], batch=None, home_sm_count=DEVICE.sm_count)
        signature = replace(fail.signature, kernel=kernel)
        statistics.sight(replace(fail, signature=signature, idiom="neighbouring rows"), trial, (number,))
    return statistics.in_order()


def test_without_time_to_confirm_only_one_idiom_is_grouped() -> None:
    assert triaged(seen(runs(wrong_from=3)).in_order(), runs(wrong_from=3), Deadline.after(0)) == []
    (finding,) = triaged(of_one_idiom(), runs(wrong_from=3), Deadline.after(0))
    assert (finding.fail.signature.kernel, finding.confirmation) == ("first_kernel", Confirmation.NOT_TRIED)
    assert [one.signature.kernel for one in finding.symptoms] == ["second_kernel"]


def test_an_interrupted_search_joins_one_idiom_under_its_confirmed_failure() -> None:
    first, second = of_one_idiom()
    found = [(first, unconfirmed(first, (), ())), (second, replace(unconfirmed(second, (), ()), confirmed=True))]
    ((sighting, finding),) = join_untried(found)
    assert (sighting, finding.confirmed) == (second, True)
    assert [one.signature for one in finding.symptoms] == [first.fail.signature]
    others = [(one, unconfirmed(one, (), ())) for one in seen(runs(wrong_from=3)).in_order()]
    assert join_untried(others) == others
