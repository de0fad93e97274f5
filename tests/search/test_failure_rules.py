"""Failure rules: what failing cases have in common, learnt from drawn cases and their outcomes."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.model.case import Case, DType, Layout, Scale, ValueDistribution
from harness.model.verdict import Outcome
from harness.search.failure_rules import KnownCase, failure_rules, place_of
from harness.search.launch_feedback import LaunchFeedback
from harness.search.strategies import Batch
from tests.search.fakes import DEVICE, OP, SIMPLEST, Shows, never, with_dims

MODES = replace(OP, options={"mode": ("sum", "mean", "none")})
DRAWN = tuple(
    {
        case.digest: case
        for case in Batch(op=MODES, device=DEVICE, feedback=LaunchFeedback(), seed=6, size=130).draw()
        if case.scale is Scale.USUAL
    }.values()
)[:96]


def known(cases: tuple[Case, ...], fails: Shows, abstains: Shows = never) -> list[KnownCase]:
    def outcome(case: Case) -> Outcome:
        return Outcome.ABSTAIN if abstains(case) else Outcome.FAIL if fails(case) else Outcome.PASS

    return [KnownCase(at=place_of(MODES, case), outcome=outcome(case)) for case in cases]


def learnt(fails: Shows, cases: tuple[Case, ...] = DRAWN) -> list[str]:
    return list(map(str, failure_rules(known(cases, fails))))


def dim(name: str) -> Callable[[Case], int]:
    return lambda case: case.dims[name]


T, D, G = map(dim, "TDG")


@pytest.mark.parametrize(
    ("fails", "rules"),
    [
        pytest.param(lambda case: G(case) > 1, ["G > 1"], id="a bound"),
        pytest.param(lambda case: case.options["mode"] == "mean", ["mode = mean"], id="an option"),
        pytest.param(lambda case: case.options["mode"] != "sum", ["mode is not sum"], id="all values but one"),
        pytest.param(lambda case: case.dtype is DType.BF16, ["dtype = bf16"], id="a dtype"),
        pytest.param(lambda case: "weight" in case.absent, ["weight = absent"], id="an absent input"),
        pytest.param(lambda case: case.layout_of("x") is Layout.STRIDED, ["layout of x = strided"], id="a layout"),
        pytest.param(
            lambda case: "x" not in OP.wanted_gradients(case), ["gradient of x = not wanted"], id="a gradient"
        ),
        pytest.param(lambda case: case.values is ValueDistribution.ZEROS, ["values = zeros"], id="values"),
        pytest.param(lambda case: D(case) & (D(case) - 1) != 0, ["D is no power of two"], id="powers of two"),
        pytest.param(lambda case: T(case) >= D(case), ["T >= D"], id="two sizes"),
        pytest.param(lambda case: T(case) != D(case), ["T != D"], id="two sizes that differ"),
        pytest.param(lambda case: T(case) == D(case), ["T = D"], id="two equal sizes"),
        pytest.param(lambda case: D(case) % 16 != 0, ["D is no multiple of 16"], id="a divisor"),
        pytest.param(
            lambda case: D(case) % 8 != 0 and G(case) > 1, ["D is no multiple of 8 and G > 1"], id="a divisor and more"
        ),
        pytest.param(
            lambda case: case.dtype is DType.FP16 and G(case) > 1, ["dtype = fp16 and G > 1"], id="two axes"
        ),
        pytest.param(
            lambda case: G(case) == 4 or case.options["mode"] == "none", ["mode = none", "G = 4"], id="two causes"
        ),
    ],
)  # fmt: skip
def test_a_rule_states_what_failing_cases_share(fails: Shows, rules: list[str]) -> None:
    assert learnt(fails) == rules


def test_a_divisor_comes_before_a_list_of_sizes() -> None:
    few = tuple(replace(case, dims={**case.dims, "D": (16, 33, 32, 35, 48)[n % 5]}) for n, case in enumerate(DRAWN))
    assert learnt(lambda case: D(case) in {33, 35}, few) == ["D is no multiple of 16"]
    assert learnt(lambda case: D(case) == 33, few) == ["D = 33"]


def test_the_bound_is_next_to_the_failing_cases() -> None:
    (rule,) = learnt(lambda case: D(case) < 16)
    name, relation, bound = rule.split()
    assert (name, relation) == ("D", "<")
    assert int(bound) == max(D(case) for case in DRAWN if D(case) < 16) + 1


def test_few_failing_cases_give_no_rule() -> None:
    bad = [case for case in DRAWN if G(case) == 4]
    rest = tuple(case for case in DRAWN if G(case) != 4)
    assert learnt(lambda case: G(case) == 4, (*bad[:5], *rest)) == []
    assert learnt(lambda case: G(case) == 4, (*bad[:6], *rest)) == ["G = 4"]


def test_few_passing_cases_give_no_rule() -> None:
    bad = tuple(case for case in DRAWN if G(case) > 1)
    rest = tuple(case for case in DRAWN if G(case) == 1)
    assert learnt(lambda case: G(case) > 1, (*bad, *rest[:2])) == []
    assert learnt(lambda case: G(case) > 1, (*bad, *rest)) == ["G > 1"]


def test_failures_everywhere_or_nowhere_give_no_rule() -> None:
    assert learnt(never) == learnt(lambda _: True) == []


@pytest.mark.parametrize("seed", range(8))
def test_failures_at_random_give_no_rule(seed: int) -> None:
    assert learnt(lambda case: int(case.digest, 16) >> seed & 1 == 1) == []


def test_one_passing_case_refutes_a_rule() -> None:
    exception = next(case for case in DRAWN if G(case) > 1 and case.dtype is not DType.FP16)
    assert "G > 1" not in learnt(lambda case: G(case) > 1 and case != exception)


def test_a_case_that_abstains_neither_supports_nor_refutes() -> None:
    passing = known(DRAWN, lambda case: G(case) > 1, lambda case: T(case) < 8)
    assert list(map(str, failure_rules(passing))) == ["G > 1"]


def test_a_rule_does_not_depend_on_the_order_of_cases() -> None:
    cases = known(DRAWN, lambda case: G(case) == 4 or (case.dtype is DType.BF16 and T(case) > 64))
    assert failure_rules(cases) == failure_rules(cases[::-1])


def test_every_rule_agrees_with_every_case() -> None:
    cases = known(DRAWN, lambda case: G(case) == 4 or T(case) % 16 == 0 or case.dtype is DType.BF16)
    rules = failure_rules(cases)
    assert rules
    assert not [rule for rule in rules for case in cases if case.outcome is Outcome.PASS and rule.holds(case.at)]


def test_a_setting_of_an_absent_input_meets_no_condition_on_it() -> None:
    place = place_of(OP, replace(SIMPLEST, absent=("weight",)))
    assert ("layout of weight" in place.settings, "layout of residual" in place.settings) == (False, True)


def test_choices_have_the_names_of_reports() -> None:
    place = place_of(OP, replace(with_dims(T=3), scale=Scale.OVERSIZED, values=ValueDistribution.NAN_TAINTED))
    assert (place.settings["scale"], place.settings["values"]) == ("oversized", "nan-tainted")


def test_an_input_is_absent_given_or_frozen() -> None:
    place = place_of(OP, replace(SIMPLEST, absent=("weight",), frozen=("x",)))
    settings = {name: place.settings[name] for name in OP.inputs}
    assert settings == {"x": "frozen", "residual": "given", "weight": "absent"}
