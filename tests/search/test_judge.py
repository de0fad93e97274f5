"""What the judge makes of a run that launched no kernel."""

from dataclasses import replace

import pytest

from harness.model.op import Dim, Op
from harness.model.paired_run import RunRequest, case_of
from harness.model.run import Run
from harness.model.verdict import Outcome
from harness.oracles import registry
from harness.search.judge import Judge
from harness.search.oversized import growing_dim_sets
from tests.oracles.facts import result, run
from tests.search.fakes import OP

UNLAUNCHED = run(launches=())
WITHOUT_KERNELS = replace(OP, launches=False)


def passing(verdicts_of: Run, *, launches: bool) -> list[str]:
    examined = Judge().judge(replace(OP, launches=launches), verdicts_of, {})
    return [verdict.oracle for verdict in examined.verdicts if type(verdict).__name__ == "Pass"]


def test_a_case_that_launches_no_kernel_abstains_whatever_its_values() -> None:
    examined = Judge().judge(OP, UNLAUNCHED, {})
    assert (passing(UNLAUNCHED, launches=True), examined.outcome) == ([], Outcome.ABSTAIN)
    assert registry.reasons(examined.verdicts) == ("no kernel was launched",)


def test_an_op_without_kernels_is_checked_by_its_values_alone() -> None:
    assert passing(UNLAUNCHED, launches=False) == ["completes", "result-structure", "float64-values"]
    assert Judge().judge(WITHOUT_KERNELS, UNLAUNCHED, {}).outcome is Outcome.PASS


def test_an_empty_tensor_needs_no_kernel() -> None:
    empty = replace(UNLAUNCHED, case=replace(UNLAUNCHED.case, dims={**UNLAUNCHED.case.dims, "T": 0}))
    assert Judge().judge(OP, UNLAUNCHED, {}).outcome is Outcome.ABSTAIN
    assert Judge().judge(OP, empty, {}).outcome is Outcome.PASS


def test_an_op_without_kernels_needs_a_checked_value() -> None:
    nothing = run(launches=(), results=())
    assert Judge().judge(WITHOUT_KERNELS, nothing, {}).outcome is Outcome.ABSTAIN


@pytest.mark.parametrize("op", [OP, WITHOUT_KERNELS], ids=["kernels", "no kernels"])
def test_wrong_values_fail_without_a_kernel(op: Op) -> None:
    wrong = run(launches=(), results=(result(whole=3.0, unwritten=5),))
    examined = Judge().judge(op, wrong, {})
    assert [fail.oracle for fail in examined.fails] == ["unwritten", "float64-values"]
    assert examined.outcome is Outcome.FAIL


def test_an_op_without_kernels_has_no_oversized_cases() -> None:
    growing = replace(OP, dims={**OP.dims, "T": Dim(low=1, high=2048, grows=True)})
    assert growing_dim_sets(growing) == (("T",),)
    assert growing_dim_sets(replace(growing, launches=False)) == ()


@pytest.mark.parametrize(("oracle", "is_exact"), [("wrong-value", True), ("float64-values", False), ("bounds", False)])
def test_a_wrong_value_is_looked_for_in_exact_arithmetic(oracle: str, is_exact: bool) -> None:  # noqa: FBT001
    def execute(request: RunRequest) -> Run:
        return replace(run(), case=case_of(request))

    examined = Judge().only(oracle).examine(OP, run().case, execute)
    assert examined.run.case.is_exact is is_exact
