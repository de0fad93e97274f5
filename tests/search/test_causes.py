"""Failures of one cause are grouped by places, idioms, cases and launches; independent bugs stay apart."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from harness.model.run import Source
from harness.model.verdict import Fail, Severity, Signature
from harness.oracles import registry
from harness.oracles.traits import Causality
from harness.search.causes import Cause, Suspect, causes_of, may_explain
from tests.oracles.facts import LAUNCH

FORWARD, BACKWARD = "norm_fwd_kernel", "norm_bwd_kernel"
LAUNCHES = (replace(LAUNCH, kernel=FORWARD), replace(LAUNCH, kernel=BACKWARD))
ORACLES = frozenset(oracle.name for oracle in registry.ALL)
MANY = frozenset(map(str, range(20)))


def signature(oracle: str, kernel: str, place: str, severity: Severity = Severity.ERROR) -> Signature:
    return Signature(oracle=oracle, severity=severity, op="suites/norm.py:norm", kernel=kernel, place=place)


STRAY = signature("bounds", FORWARD, "norm.py:10")
LATER_STRAY = signature("bounds", BACKWARD, "norm.py:40")
OVERLAP = signature("write-overlap", FORWARD, "norm.py:12", Severity.WARNING)
WRONG = signature("float64-values", FORWARD, "y")
WRONG_GRADIENT = signature("float64-values", BACKWARD, "dx")
WRONG_SUM = signature("float64-values", "", "d:weight")
UNSTORED = signature("unwritten", "", "y")
VARIES = signature("sm-invariance", FORWARD, "y")
UNDEFINED = signature("undefined-lanes", FORWARD, "y", Severity.WARNING)
RAISED = signature("completes", FORWARD, "ValueError: no")


class Everything(frozenset[Signature]):
    """All failures."""

    def __contains__(self, failure: object) -> bool:
        return True


def suspect(
    failure: Signature, cases: Iterable[str] = MANY, *, seen_with: Iterable[Signature] | None = None, idiom: str = ""
) -> Suspect:
    """Return a failure of these cases; `seen_with` are the other failures of its simplest case, by default all."""
    return Suspect(
        fail=Fail(signature=failure, message="seen", meaning="bad", idiom=idiom),
        cases=frozenset(cases),
        seen_with=Everything() if seen_with is None else frozenset({failure, *seen_with}),
        judged=ORACLES,
        launches=LAUNCHES,
    )


def test_a_stray_access_explains_all_wrong_values() -> None:
    failures = (WRONG_SUM, VARIES, WRONG, LATER_STRAY, STRAY, WRONG_GRADIENT, UNSTORED)
    assert causes_of(map(suspect, failures)) == (
        Cause(head=STRAY, symptoms=(LATER_STRAY, UNSTORED, WRONG, WRONG_GRADIENT, WRONG_SUM, VARIES)),
    )


def test_a_failure_that_also_shows_without_the_cause_is_another_bug() -> None:
    wrong = suspect(WRONG, [*MANY, "20", "21", "22"])
    assert causes_of([suspect(STRAY), wrong]) == (Cause(head=STRAY), Cause(head=WRONG))
    nearly = suspect(WRONG, [*MANY, "20"])
    assert causes_of([suspect(STRAY), nearly]) == (Cause(head=STRAY, symptoms=(WRONG,)),)


def test_a_failure_that_the_simplest_case_of_the_cause_lacks_is_another_bug() -> None:
    alone = suspect(STRAY, seen_with=())
    assert causes_of([alone, suspect(WRONG, "012")]) == (Cause(head=STRAY), Cause(head=WRONG))
    together = suspect(STRAY, seen_with=[WRONG])
    assert causes_of([together, suspect(WRONG, "012")]) == (Cause(head=STRAY, symptoms=(WRONG,)),)


def test_a_failure_that_did_not_run_alone_explains_nothing_else() -> None:
    untried = [replace(suspect(one), seen_with=None) for one in (STRAY, WRONG)]
    assert causes_of(untried) == (Cause(head=STRAY), Cause(head=WRONG))
    kernels = [replace(STRAY, kernel=kernel) for kernel in ("one_kernel", "other_kernel")]
    idiom = [replace(suspect(one, idiom="narrow"), seen_with=None) for one in kernels]
    assert len(causes_of(idiom)) == 1


def test_an_oracle_that_did_not_judge_the_simplest_case_does_not_separate() -> None:
    alone = replace(suspect(STRAY, seen_with=()), judged=ORACLES - {"sm-invariance"})
    assert causes_of([alone, suspect(VARIES, "012")]) == (Cause(head=STRAY, symptoms=(VARIES,)),)


@pytest.mark.parametrize(
    ("later", "earlier"),
    [(LATER_STRAY, WRONG), (WRONG_GRADIENT, WRONG), (WRONG_SUM, UNSTORED), (VARIES, WRONG), (RAISED, WRONG)],
    ids=str,
)
def test_consequences_explain_no_causes(later: Signature, earlier: Signature) -> None:
    assert not may_explain(suspect(later), suspect(earlier))


def test_a_harmless_warning_explains_no_error() -> None:
    assert causes_of(map(suspect, (OVERLAP, WRONG))) == (Cause(head=OVERLAP), Cause(head=WRONG))
    gap = replace(STRAY, severity=Severity.WARNING)
    assert causes_of(map(suspect, (gap, WRONG))) == (Cause(head=gap, symptoms=(WRONG,)),)


def test_an_exception_is_no_consequence_of_wrong_values_or_races() -> None:
    failures = (replace(OVERLAP, severity=Severity.ERROR), WRONG, RAISED)
    (cause, raised) = causes_of(map(suspect, failures))
    assert (cause.symptoms, raised) == ((WRONG,), Cause(head=RAISED))
    fault = replace(RAISED, place="illegal memory access")
    assert causes_of(map(suspect, (STRAY, fault))) == (Cause(head=STRAY, symptoms=(fault,)),)


def test_one_place_with_two_severities_is_one_cause_in_other_cases_too() -> None:
    gap = replace(STRAY, severity=Severity.WARNING)
    suspects = [suspect(gap, "012"), suspect(STRAY, "34"), suspect(WRONG, "01234")]
    assert causes_of(suspects) == (Cause(head=STRAY, symptoms=(gap, WRONG)),)


def test_an_argument_that_strays_at_several_lines_is_one_cause() -> None:
    lines = [signature("bounds", FORWARD, f"norm.py:{line}") for line in (10, 20)]
    at_lines = [suspect(lines[0], "012"), suspect(lines[1], "345")]
    same = [replace(one, fail=replace(one.fail, argument="x", source=LAUNCH.source)) for one in at_lines]
    wrong = suspect(WRONG, "012345")
    assert causes_of([*same, wrong]) == (Cause(head=lines[0], symptoms=(lines[1], WRONG)),)
    assert [cause.head for cause in causes_of([*at_lines, wrong])] == [*lines, WRONG]
    other_file = replace(same[1], fail=replace(same[1].fail, source=Source(file="namesake.py", line=20)))
    assert [cause.head for cause in causes_of([same[0], other_file])] == lines


def test_two_statements_that_never_stray_together_are_two_bugs() -> None:
    lines = [signature("bounds", FORWARD, f"norm.py:{line}") for line in (10, 20)]
    apart = [suspect(lines[0], "012", seen_with=()), suspect(lines[1], "345", seen_with=())]
    same = [replace(one, fail=replace(one.fail, argument="x", source=LAUNCH.source)) for one in apart]
    assert causes_of(same) == (Cause(head=lines[0]), Cause(head=lines[1]))
    both = replace(same[1], seen_with=frozenset(lines))
    assert causes_of([same[0], both]) == (Cause(head=lines[0], symptoms=(lines[1],)),)
    untried = [replace(one, seen_with=None) for one in same]
    assert len(causes_of(untried)) == 2
    assert len(causes_of([untried[0], replace(untried[1], cases=frozenset("25"))])) == 1


def test_two_results_that_are_wrong_under_different_conditions_are_two_bugs() -> None:
    other = replace(WRONG, place="z")
    apart = [suspect(WRONG, "01234", seen_with=()), suspect(other, "4567", seen_with=())]
    assert causes_of(apart) == (Cause(head=WRONG), Cause(head=other))
    within = [suspect(WRONG, "01234", seen_with=()), suspect(other, "34", seen_with=[WRONG])]
    assert causes_of(within) == (Cause(head=WRONG), Cause(head=other))


def test_what_only_a_second_run_shows_joins_if_its_simplest_case_shows_the_cause() -> None:
    unjudged = replace(suspect(STRAY, seen_with=()), judged=ORACLES - {"sm-invariance"})
    alone, together = suspect(VARIES, "012", seen_with=()), suspect(VARIES, "012", seen_with=[STRAY])
    assert causes_of([unjudged, alone]) == (Cause(head=STRAY), Cause(head=VARIES))
    assert causes_of([unjudged, together]) == (Cause(head=STRAY, symptoms=(VARIES,)),)


def test_one_idiom_in_many_kernels_is_one_cause() -> None:
    elsewhere = signature("undefined-lanes", "another_kernel", "o", Severity.WARNING)
    suspects = [
        suspect(UNDEFINED, "012", idiom="block pointer"),
        suspect(elsewhere, "345", idiom="block pointer"),
        suspect(signature("undefined-lanes", BACKWARD, "dx", Severity.WARNING), "678"),
    ]
    idiom, other = causes_of(suspects)
    assert (idiom, other.symptoms) == (Cause(head=UNDEFINED, symptoms=(elsewhere,)), ())


def test_equal_exceptions_at_one_line_are_one_cause_in_all_ops() -> None:
    elsewhere = replace(RAISED, kernel="", op="suites/norm.py:group_norm")
    suspects = [suspect(RAISED, "012"), suspect(elsewhere, "345")]
    assert len(causes_of(suspects)) == 2
    at_line = [replace(one, fail=replace(one.fail, source=LAUNCH.source)) for one in suspects]
    assert causes_of(at_line) == (Cause(head=RAISED, symptoms=(elsewhere,)),)


def test_the_first_kernel_with_an_idiom_stands_for_the_others() -> None:
    suspects = [suspect(one, "012", idiom="offset of 32 bits") for one in (LATER_STRAY, STRAY)]
    assert causes_of(suspects) == (Cause(head=STRAY, symptoms=(LATER_STRAY,)),)


def test_undefined_lanes_explain_no_wrong_values() -> None:
    assert len(causes_of(map(suspect, (UNDEFINED, STRAY, WRONG)))) == 2


def test_of_two_causes_the_one_with_more_of_the_cases_has_the_symptom() -> None:
    suspects = [suspect(STRAY, MANY), suspect(LATER_STRAY, [*MANY - {"3"}, "20", "21", "22"]), suspect(WRONG_GRADIENT)]
    assert causes_of(suspects) == (Cause(head=STRAY, symptoms=(WRONG_GRADIENT,)), Cause(head=LATER_STRAY))


def test_causes_keep_the_order_of_their_first_failure() -> None:
    suspects = [suspect(WRONG, "01"), suspect(OVERLAP, "56"), suspect(STRAY, "01")]
    assert [cause.head for cause in causes_of(suspects)] == [STRAY, OVERLAP]


def test_every_oracle_has_a_place_in_the_order() -> None:
    apart = {"resources", "scratch-memory", "scratch-context"}
    # The virtual GPU moves each lane by itself, so races and hints change no value.
    apart |= {"thread-race", "compiler-hint", "compiled-code"}
    apart |= {"autotuner-choice", "autotuner-key", "autotuner-threads"}
    assert {oracle.name for oracle in registry.ALL if oracle.traits.causality is Causality.APART} == apart
    assert registry.names_with(lambda traits: traits.causality is Causality.ENDING) == ("completes",)
    assert registry.names_with(lambda traits: traits.causality is Causality.UNDEFINED_LANES) == ("undefined-lanes",)
    ending = registry.names_with(lambda traits: traits.ends_launches)
    assert ending == ("bounds", "descriptor-alignment", "device-assert", "compiled-code")
