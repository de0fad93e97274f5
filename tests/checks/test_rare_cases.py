"""Which cases a check adds to those that it drew."""

from collections.abc import Sequence
from dataclasses import replace

from harness.checks.rare_cases import rare_cases
from harness.execution.paired_run_policy import is_sampled
from harness.execution.reruns import Rerun, call_check, fails_between
from harness.model.case import Case
from harness.model.later_calls import LaterCall
from harness.model.run import Completed, Run
from tests.search.fakes import OP, SIMPLEST, clean

LATER = LaterCall(between="a call that fails", ending=Completed(), digests={}, projections={})


def _calling_later(completed: Sequence[Run]) -> list[Case]:
    return [case for case in rare_cases(OP, completed) if call_check(OP, case) is Rerun.LATER]


def test_two_cases_have_later_calls_if_no_drawn_one_has_any() -> None:
    (other, failing) = _calling_later([clean(replace(SIMPLEST, seed=12345))])
    assert (fails_between(other), fails_between(failing)) == (False, True)


def test_a_kind_of_later_calls_that_was_drawn_is_not_added() -> None:
    for case in _calling_later([clean(SIMPLEST)]):
        (added,) = _calling_later([replace(clean(case), later=LATER)])
        assert fails_between(added) != fails_between(case)


def test_no_other_added_case_has_second_runs() -> None:
    added = list(rare_cases(OP, [clean(replace(SIMPLEST, seed=0))]))
    assert len([case for case in added if is_sampled(case)]) == 2 < len(added)
