"""Which gradients a case asks for: of all inputs, of some, of none, or no backward pass at all."""

from collections import Counter
from dataclasses import replace

import pytest

from harness.model.case import Case, GradMode, Layout, Scale
from harness.model.op import Op
from harness.search import moves
from harness.search.campaign_plan import EXAMPLES
from harness.search.campaign_statistics import Trial
from harness.search.launch_feedback import LaunchFeedback
from harness.search.sort_key import sort_key
from harness.search.strategies import Batch, early_cases
from harness.suite import tokens
from tests.search.fakes import DEVICE, OP, SIMPLEST, Shows
from tests.search.shrinks import shrink
from tests.search.test_shrinking import LIMITS, SIGNATURE

FULL = replace(SIMPLEST, absent=())
NO_GRAD = replace(FULL, grad_mode=GradMode.NO_GRAD)
WITHOUT_GRADIENTS = replace(
    OP, inputs={name: replace(given, grad=False) for name, given in OP.inputs.items()}, apart=("T",)
)
HOME = DEVICE.sm_count


def drawn(op: Op, batches: int = 40) -> list[Case]:
    found: dict[str, Case] = {}
    for seed in range(batches):
        batch = Batch(op=op, device=DEVICE, feedback=LaunchFeedback(), seed=seed, size=EXAMPLES)
        found |= {case.digest: case for case in batch.draw()}
    return list(found.values())


def kind_of(case: Case) -> str:
    if case.grad_mode is GradMode.NO_GRAD:
        return "no_grad"
    wanted = OP.wanted_gradients(case)
    return "all" if wanted == OP.differentiable(case) else "some" if wanted else "none"


def test_the_wanted_gradients_of_a_case_are_those_that_require_one() -> None:
    assert OP.wanted_gradients(FULL) == ("x", "residual", "weight")
    assert OP.wanted_gradients(replace(SIMPLEST, frozen=("x",))) == ()
    assert OP.wanted_gradients(replace(FULL, frozen=("residual", "weight"))) == ("x",)
    assert OP.wanted_gradients(NO_GRAD) == ()


def test_about_one_case_in_six_does_not_ask_for_all_gradients() -> None:
    found = drawn(OP)
    counts = Counter(map(kind_of, found))
    assert set(counts) == {"all", "some", "none", "no_grad"}
    assert len(found) / 12 < len(found) - counts["all"] < len(found) / 3


def test_only_inputs_that_are_given_are_frozen() -> None:
    for case in drawn(OP):
        assert set(case.frozen) <= set(OP.differentiable(case))
        assert case.frozen == tuple(sorted(case.frozen))
        assert OP.wanted_gradients(case) or case.layout_of("grad") is Layout.CONTIGUOUS


def test_an_op_without_gradients_has_no_such_axis() -> None:
    assert {(case.grad_mode, case.frozen) for case in drawn(WITHOUT_GRADIENTS, 10)} == {(GradMode.ENABLED, ())}
    assert early_cases(WITHOUT_GRADIENTS, [FULL], LaunchFeedback()) == ()


def test_a_suite_may_require_gradients() -> None:
    op = replace(OP, where=lambda at: "x" in at["gradients"])
    assert all("x" in op.wanted_gradients(case) for case in drawn(op, 10))
    assert len(early_cases(op, [FULL], LaunchFeedback())) == 1


def test_oversized_cases_ask_for_all_gradients() -> None:
    op = replace(OP, dims={**OP.dims, "T": tokens(2048)})
    oversized = [case for case in drawn(op) if case.scale is Scale.OVERSIZED]
    assert {(case.grad_mode, case.frozen) for case in oversized} == {(GradMode.ENABLED, ())}


def test_early_cases_cover_every_kind_of_wanted_gradients() -> None:
    early = early_cases(OP, [SIMPLEST, FULL], LaunchFeedback())
    assert [(kind_of(case), OP.wanted_gradients(case)) for case in early] == [
        ("no_grad", ()),
        ("none", ()),
        ("some", ("x",)),
        ("none", ()),
    ]
    assert early == (
        NO_GRAD,
        replace(SIMPLEST, frozen=("x",)),
        replace(FULL, frozen=("residual", "weight")),
        replace(SIMPLEST, frozen=("x",)),
    )


def test_asking_for_all_gradients_is_simplest() -> None:
    some, none = replace(FULL, frozen=("x",)), replace(FULL, frozen=("residual", "weight", "x"))
    keys = [sort_key(OP, case, HOME) for case in (FULL, some, none, NO_GRAD)]
    assert keys == sorted(keys)
    assert list(moves.gradients(OP, FULL)) == []
    assert list(moves.gradients(OP, NO_GRAD)) == [FULL]
    assert list(moves.gradients(OP, replace(FULL, frozen=("weight", "x")))) == [
        FULL,
        replace(FULL, frozen=("x",)),
        replace(FULL, frozen=("weight",)),
    ]


def test_an_input_that_becomes_absent_is_not_frozen() -> None:
    for case in moves.absent(OP, replace(FULL, frozen=("weight", "x"))):
        assert case.frozen == (("x",) if "weight" in case.absent else ("weight", "x"))


@pytest.mark.parametrize(
    ("shows", "target"),
    [
        (lambda _: True, SIMPLEST),
        (lambda case: case.grad_mode is GradMode.NO_GRAD, replace(SIMPLEST, grad_mode=GradMode.NO_GRAD)),
        (lambda case: kind_of(case) == "none", replace(SIMPLEST, frozen=("x",))),
        (
            lambda case: "x" in case.frozen and "weight" in OP.wanted_gradients(case),
            replace(SIMPLEST, absent=("residual",), frozen=("x",)),
        ),
    ],
)
def test_a_failure_shrinks_to_all_gradients_that_show_it(shows: Shows, target: Case) -> None:
    begun = replace(FULL, dims={"T": 90, "D": 4, "G": 1}, frozen=("residual", "x"))
    for case in (begun, replace(begun, frozen=("residual", "weight", "x")), replace(begun, grad_mode=GradMode.NO_GRAD)):
        if shows(case):
            trial = Trial(number=0, op=OP, case=case, batch=None, home_sm_count=HOME)
            assert shrink(trial, SIGNATURE, shows, LIMITS).case == target
