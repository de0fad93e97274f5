"""Environment variables of a library are an axis of its cases: drawn for some, shrunk away, and no part of old ids."""

from dataclasses import replace
from itertools import islice

import pytest

from harness.findings.region.axes import setting_changes
from harness.model.case import CallContext
from harness.model.region import AxisKind
from harness.search import moves
from harness.search.campaign_plan import CampaignPlan, CaseBudget, batch_plans
from harness.search.campaign_statistics import Trial
from harness.search.failure_rules import place_of
from harness.search.launch_feedback import LaunchFeedback
from harness.search.options import with_environment
from harness.search.sort_key import sort_key
from harness.search.strategies import early_cases
from tests.search.fakes import DEVICE, OP, SIMPLEST, Shows, facts
from tests.search.shrinks import shrink
from tests.search.test_shrinking import LIMITS, SIGNATURE

TMA, LOUD = ("FLA_USE_TMA", "1"), ("LOUD", "yes")
TUNED = replace(OP, environment={"LOUD": ("yes",), "FLA_USE_TMA": ("1",)})
HOME = DEVICE.sm_count


def plan(ops: tuple[str, ...] = ("FLA_USE_TMA",)) -> CampaignPlan:
    op = replace(OP, environment=dict.fromkeys(ops, ("1",)))
    return CampaignPlan(ops=(op,), devices=(DEVICE,), budget=CaseBudget(cases=96), seed=1)


def test_the_environments_of_an_op_are_all_combinations_but_the_empty_one() -> None:
    assert TUNED.environments == ((LOUD,), (TMA,), (TMA, LOUD))
    assert OP.environments == ()


def test_every_third_batch_has_a_variable_and_the_devices_own_sm_count() -> None:
    drawn = [one.batch(LaunchFeedback()) for one in islice(batch_plans(plan()), 9)]
    assert [bool(batch.environment) for batch in drawn] == [False, True, False] * 3
    assert {batch.device.sm_count for batch in drawn if batch.environment} == {HOME}
    assert {case.environment for case in drawn[1].draw()} == {(TMA,)}


def test_a_declared_variable_changes_nothing_else_of_the_drawn_cases() -> None:
    without = [one.batch(LaunchFeedback()).draw() for one in islice(batch_plans(plan(())), 3)]
    with_one = [one.batch(LaunchFeedback()).draw() for one in islice(batch_plans(plan()), 3)]
    assert [[replace(case, environment=()) for case in cases] for cases in with_one] == [list(one) for one in without]


def test_each_environment_has_an_early_case() -> None:
    early = early_cases(TUNED, [SIMPLEST, replace(SIMPLEST, absent=())], LaunchFeedback())
    assert [(case.environment, case.context) for case in early if case.environment] == [
        (environment, context)
        for environment in ((LOUD,), (TMA,), (TMA, LOUD))
        for context in (CallContext.MAIN, CallContext.THREAD)
    ]


def test_a_case_without_variables_is_simplest() -> None:
    both = replace(SIMPLEST, environment=(TMA, LOUD))
    assert list(moves.environment(TUNED, SIMPLEST)) == []
    fewer = list(moves.environment(TUNED, both))
    assert [case.environment for case in fewer] == [(), (LOUD,), (TMA,)]
    keys = [sort_key(TUNED, case, HOME) for case in (*fewer, both)]
    assert keys == sorted(keys)


@pytest.mark.parametrize(
    ("shows", "target"),
    [(lambda _: True, ()), (lambda case: TMA in case.environment, (TMA,))],
)
def test_a_failure_shrinks_to_the_variables_that_it_needs(shows: Shows, target: tuple[tuple[str, str], ...]) -> None:
    begun = replace(SIMPLEST, dims={"T": 9, "D": 4, "G": 1}, environment=(TMA, LOUD))
    trial = Trial(number=0, op=TUNED, case=begun, batch=None, home_sm_count=HOME)
    assert shrink(trial, SIGNATURE, shows, LIMITS).case == replace(SIMPLEST, environment=target)


def test_the_command_line_replaces_and_adds_variables() -> None:
    (op,) = with_environment((TUNED,), {"LOUD": (), "DEPTH": ("2", "3")})
    two, three = ("DEPTH", "2"), ("DEPTH", "3")
    assert op.environments == ((TMA,), (two,), (three,), (two, TMA), (three, TMA))
    assert with_environment((TUNED,), {}) == (TUNED,)


def test_a_failure_rule_may_name_a_variable() -> None:
    assert place_of(TUNED, replace(SIMPLEST, environment=(TMA,))).settings["FLA_USE_TMA"] == "1"
    assert place_of(TUNED, SIMPLEST).settings["FLA_USE_TMA"] == "unset"


def test_a_region_tries_each_variable_with_and_without_its_values() -> None:
    case = replace(SIMPLEST, environment=(TMA,))
    changes = setting_changes(TUNED, case, facts(case, lambda _: False), "")
    tried = [one for one in changes if one.axis.kind is AxisKind.ENVIRONMENT]
    assert [(one.axis.name, one.value, one.case.environment) for one in tried] == [
        ("LOUD", "unset", (TMA,)),
        ("LOUD", "yes", (TMA, LOUD)),
        ("FLA_USE_TMA", "unset", ()),
        ("FLA_USE_TMA", "1", (TMA,)),
    ]


def test_the_text_of_a_case_begins_with_its_variables() -> None:
    text = str(replace(SIMPLEST, environment=(TMA,)))
    assert text.startswith("FLA_USE_TMA=1 layer_norm T=1")


def test_cases_of_one_process_have_one_environment() -> None:
    other = replace(SIMPLEST, environment=(TMA,))
    assert other.process != SIMPLEST.process
    assert replace(other, seed=5).process == other.process
