"""The oracles of exact arithmetic: is the algorithm right, and how many digits does rounding cost."""

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from harness.model.run import (
    ExactComparison,
    ExactRun,
    LaunchRounding,
    Measure,
    PartlyStored,
    Run,
    Source,
    UninitialisedRead,
)
from harness.model.verdict import Severity, Signature
from harness.oracles import registry
from harness.oracles.exact_values import ALGORITHM, Precision, WrongValue, digits_left
from harness.oracles.float64_values import DECIDED_EXACTLY, Float64Values
from harness.oracles.likely_cause import MEMORY
from tests.oracles.facts import KERNEL, LINE_207, judge, only_failure, result, run, signature, site

GROWTH = LaunchRounding(
    launch=0,
    kernel=KERNEL,
    operation="arith.subf",
    source=Source(file="/fla/layernorm.py", line=254),
    before=1e-3,
    after=1.0,
    cancelled=0.0,
)


def comparison(name: str = "y", *, ratio: float = 0.5, known: bool = True, error: float = 1e-3) -> ExactComparison:
    return ExactComparison(
        name=name,
        is_known=known,
        worst=Measure(ratio=ratio, index=(3, 0), got=0.5, expected=0.25),
        error=error,
        usual_error=1e-7,
        absolute_error=error,
        size=1.0,
    )


def exact_run(*comparisons: ExactComparison, wrong: bool = False, doubts: tuple[str, ...] = ()) -> Run:
    """Return a run whose real results are wrong by the tolerance, or right."""
    results = tuple(result(one.name, whole=30.0 if wrong else 0.5) for one in comparisons)
    return replace(run(results=results), exact=ExactRun(comparisons=comparisons, doubts=doubts, roundings=(GROWTH,)))


class TestWrongValue:
    def test_a_wrong_exact_value_fails_though_rounding_hides_it(self) -> None:
        fail = only_failure(WrongValue(), exact_run(comparison(ratio=40.0)))
        assert fail.signature == signature("wrong-value", "y", kernel="")
        assert fail.message == (
            "y[3, 0] is 0.5 without any rounding, where the float64 reference gives 0.25: "
            "40 times the bound of exact arithmetic"
        )

    @pytest.mark.parametrize(
        ("rest", "words"),
        [
            ({"shape": (188, 64), "rows": (4, 187)}, "rows 4 to 187 of dw, which has 188"),
            ({"shape": (5,), "rows": (4, 4)}, "element 4 of dw, which has 5"),
            ({"shape": (188, 64), "rows": None}, "60 elements of dw"),
        ],
    )
    def test_nan_of_memory_that_no_program_stored_has_its_kernel_and_line(
        self, rest: dict[str, Any], words: str
    ) -> None:
        nan = comparison("d:weight")
        nan = replace(nan, worst=replace(nan.worst, got=inf - inf, ratio=inf))
        small = PartlyStored(launch=0, argument="dx", shape=(9,), cells=1, rows=None)
        left = PartlyStored(launch=0, argument="dw", cells=60, **rest)
        judged = replace(exact_run(nan, wrong=True), partly_stored=(small, left))
        fail = only_failure(WrongValue(), judged)
        assert fail.message.endswith(f"; likely cause: no program of {KERNEL} (layernorm.py:207) stored {words}")
        assert (fail.source, fail.launch_index, fail.meaning) == (LINE_207, 0, MEMORY)
        assert fail.signature == signature("wrong-value", "d:weight", kernel="")

    @pytest.mark.parametrize(("is_integer", "meaning"), [(True, MEMORY), (False, ALGORITHM)])
    def test_a_wrong_value_may_follow_from_integers_that_nothing_stored(
        self, meaning: str, *, is_integer: bool
    ) -> None:
        read = UninitialisedRead(site=site("counts"), cells=1, first_cells=((0,),), program=0, is_integer=is_integer)
        fail = only_failure(WrongValue(), replace(exact_run(comparison(ratio=40.0)), memory=(read,)))
        assert fail.meaning == meaning

    def test_a_number_beyond_the_type_of_the_result_overflows(self) -> None:
        large = replace(comparison(), worst=Measure(ratio=inf, index=(3, 0), got=4e213, expected=2.5))
        run = exact_run(large, wrong=True)
        run = replace(run, results=(replace(run.results[0], kind="float32"),))
        assert only_failure(WrongValue(), run).message == (
            "y[3, 0] overflows float32: it is 4e+213 without any rounding, where the float64 reference gives 2.5: "
            "beyond the bound of exact arithmetic"
        )

    def test_both_numbers_have_the_digits_that_tell_them_apart(self) -> None:
        near = replace(comparison(), worst=Measure(ratio=3.0, index=(3, 0), got=0.1234567890123, expected=0.1234567891))
        assert "y[3, 0] is 0.123456789 without any rounding, where the float64 reference gives 0.1234567891" in (
            only_failure(WrongValue(), exact_run(near)).message
        )

    def test_a_wrong_value_is_at_the_line_of_the_kernel_that_stored_it(self) -> None:
        stored = exact_run(comparison(ratio=40.0))
        stored = replace(stored, results=(replace(stored.results[0], writer=(KERNEL, "y")),))
        fail = only_failure(WrongValue(), stored)
        assert (fail.signature, fail.source) == (signature("wrong-value", "y", kernel=KERNEL), LINE_207)

    def test_a_right_exact_value_passes_however_it_is_rounded(self) -> None:
        assert judge(WrongValue(), exact_run(comparison(), wrong=True)) == ["pass"]

    def test_doubts_do_not_matter_if_the_exact_values_are_right(self) -> None:
        assert judge(WrongValue(), exact_run(comparison(), doubts=("a decision",))) == ["pass"]

    def test_abstains_in_doubt_and_says_why(self) -> None:
        doubtful = exact_run(comparison(ratio=40.0), wrong=True, doubts=("a decision (k.py:3)",))
        assert judge(WrongValue(), doubtful) == ["abstain: the exact run is in doubt: a decision (k.py:3)"]

    def test_abstains_if_an_exact_value_is_unknown(self) -> None:
        unknown = exact_run(comparison(known=False), doubts=("tt.bitcast cannot be followed",))
        assert judge(WrongValue(), unknown) == ["abstain: the exact run is incomplete: tt.bitcast cannot be followed"]

    def test_abstains_without_an_exact_run(self) -> None:
        assert judge(WrongValue(), run()) == ["abstain: the case was not computed in exact arithmetic"]


class TestPrecision:
    def test_lost_digits_are_counted_with_the_line_where_they_go(self) -> None:
        fail = only_failure(Precision(), exact_run(comparison(error=1.0), wrong=True))
        assert fail.signature == signature("precision", "y", kernel="")
        assert fail.message == (
            "y[3, 0] is 0.5 where 0.25 is right: no digit left of 7.0 digits in eager torch; "
            f"real and exact values part most at arith.subf of {KERNEL} (layernorm.py:254)"
        )

    @pytest.mark.parametrize(
        ("error", "severity"),
        [(1e-5, Severity.WARNING), (2e-4, Severity.ERROR), (0.9, Severity.ERROR), (inf, Severity.ERROR)],
    )
    def test_three_lost_digits_or_none_left_are_an_error(self, error: float, severity: Severity) -> None:
        fail = only_failure(Precision(), exact_run(comparison(error=error), wrong=True))
        assert fail.signature.severity is severity

    def test_no_later_launch_is_where_digits_go(self) -> None:
        found = exact_run(comparison(error=1.0), wrong=True)
        written = (replace(found.results[0], writer=(KERNEL, "dx")),)
        assert found.exact is not None
        later = replace(GROWTH, launch=1, kernel="later_kernel", after=2.0)
        both = replace(found, results=written, exact=replace(found.exact, roundings=(GROWTH, later)))
        assert f"arith.subf of {KERNEL}" in only_failure(Precision(), both).message

    def test_what_eager_torch_loses_too_is_no_failure(self) -> None:
        assert judge(Precision(), exact_run(comparison(error=1.0))) == ["pass"]

    def test_twice_the_error_of_eager_torch_is_no_failure(self) -> None:
        assert judge(Precision(), exact_run(comparison(error=1.9e-7), wrong=True)) == ["pass"]

    def test_a_wrong_algorithm_has_no_digits_to_lose(self) -> None:
        wrong = exact_run(comparison(ratio=40.0), wrong=True)
        assert judge(Precision(), wrong) == ["abstain: not every exact value is known to be right"]

    def test_a_zero_of_terms_that_cancel_may_be_off_by_their_rounding(self) -> None:
        zero = replace(comparison(error=inf), size=1e-18, absolute_error=1e-6)
        found = exact_run(zero, wrong=True)
        assert found.exact is not None
        cancelling = replace(found, exact=replace(found.exact, roundings=(replace(GROWTH, cancelled=1.0),)))
        assert judge(Precision(), cancelling) == ["pass"]
        assert len(judge(Precision(), found)) == 1

    def test_a_zero_of_products_in_tf32_may_be_off_by_their_rounding(self) -> None:
        zero = replace(comparison(error=inf), size=1e-18, absolute_error=1e-3)
        found = exact_run(zero, wrong=True)
        assert found.exact is not None
        cancelling = replace(found, exact=replace(found.exact, roundings=(replace(GROWTH, cancelled=1.0),)))
        products = tuple(replace(launch, dot_precisions=("tf32",)) for launch in cancelling.launches)
        assert len(judge(Precision(), cancelling)) == 1
        assert judge(Precision(), replace(cancelling, launches=products)) == ["pass"]

    def test_a_loss_by_cancellation_alone_is_a_warning(self) -> None:
        found = exact_run(comparison(error=2e-4), wrong=True)
        assert found.exact is not None
        cancelling = replace(found, exact=replace(found.exact, roundings=(replace(GROWTH, cancelled=100.0),)))
        severities = [only_failure(Precision(), one).signature.severity for one in (found, cancelling)]
        assert severities == [Severity.ERROR, Severity.WARNING]

    def test_digits_are_those_of_the_type_at_most(self) -> None:
        assert [digits_left(error, "bfloat16") for error in (0.0, 1e-9, 0.1, 2.0, inf)] == [2.4, 2.4, 1.0, 0.0, 0.0]


class TestFloat64Values:
    def test_leaves_to_exact_arithmetic_what_that_decides(self) -> None:
        for ratio in (0.5, 40.0):
            assert judge(Float64Values(), exact_run(comparison(ratio=ratio), wrong=True)) == [
                f"abstain: {DECIDED_EXACTLY}"
            ]

    def test_judges_results_whose_exact_values_are_in_doubt(self) -> None:
        doubtful = exact_run(comparison(ratio=40.0), wrong=True, doubts=("a decision",))
        assert only_failure(Float64Values(), doubtful).signature.oracle == "float64-values"

    def test_judges_results_whose_exact_values_are_unknown(self) -> None:
        unknown = exact_run(comparison(known=False), wrong=True)
        assert only_failure(Float64Values(), unknown).signature.oracle == "float64-values"


class TestOneJudgement:
    """The three oracles stand for one judgement of values."""

    VALUE = signature("float64-values", "dx")

    @pytest.mark.parametrize(("oracle", "shows"), [("wrong-value", True), ("precision", True), ("bounds", False)])
    def test_a_failure_by_tolerance_is_shown_by_one_in_exact_arithmetic(self, *, oracle: str, shows: bool) -> None:
        other = replace(self.VALUE, oracle=oracle)
        assert (registry.is_shown_by(self.VALUE, other), registry.is_shown_by(other, self.VALUE)) == (shows, shows)

    def test_lost_digits_are_no_wrong_value(self) -> None:
        wrong = replace(self.VALUE, oracle="wrong-value")
        assert not registry.is_shown_by(wrong, replace(self.VALUE, oracle="precision"))

    def test_another_tensor_is_another_failure(self) -> None:
        other: Signature = replace(self.VALUE, oracle="wrong-value", place="dw")
        assert not registry.is_shown_by(self.VALUE, other)

    def test_a_name_stands_for_the_oracles_that_decide_for_it(self) -> None:
        assert registry.family("float64-values") == {"float64-values", "wrong-value", "precision"}
        assert registry.family("precision") == {"precision"}
        assert not {one.name for one in registry.promised({"float64-values"})} & registry.family("float64-values")
