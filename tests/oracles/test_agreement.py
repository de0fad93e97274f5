"""The agreement oracle fails for differences that rounding does not explain, by kernel and argument."""

from dataclasses import replace

import pytest

from harness.model.launch_difference import CaseAgreement, Difference, Plainer
from harness.model.run import Run
from harness.oracles.agreement import EXPLAINED_BY, NOT_BOTH, GpuAgreement
from harness.oracles.compiled_code import CompiledCode
from tests.oracles.facts import KERNEL, judge, launch, only_failure, run, signature

EQUAL = Difference(kernel=KERNEL, argument="x", dtype="float32", elements=64, differing=0, ulps=0.0, scaled=0.0)
APART = replace(EQUAL, argument="dx", differing=3, ulps=9e6, scaled=0.25, doubt=40.0)


def compared(*found: Difference, launches: int = 1, skipped: tuple[tuple[str, str], ...] = ()) -> Run:
    both = CaseAgreement(gpu="NVIDIA H200", launches=launches, differences=found, skipped=skipped)
    return replace(run(launches=(launch(),), engine="cuda,virtual"), agreement=both)


def test_unexplained_differences_fail_once_per_kernel_and_argument() -> None:
    fail = only_failure(GpuAgreement(), compared(EQUAL, APART))
    assert fail.signature == signature("agreement", place="dx", kernel=KERNEL)
    assert fail.message == (
        "3 of 64 elements of dx differ on the NVIDIA H200, by up to 0.25 of the largest element, 40 times what "
        "random rounding explains"
    )


def test_the_meaning_names_the_build_that_agrees() -> None:
    fail = only_failure(GpuAgreement(), compared(replace(APART, agrees_once=Plainer.UNOPTIMISED)))
    assert fail.message.endswith("40 times what random rounding explains; they agree once ptxas does not optimise")
    assert fail.meaning == EXPLAINED_BY[Plainer.UNOPTIMISED]


@pytest.mark.parametrize(
    ("found", "is_explained"),
    [
        (replace(APART, scaled=1e-7, doubt=None), True),
        (replace(APART, scaled=1e-4, doubt=None), False),
        (replace(APART, scaled=1e-4, doubt=None, rounds=("tf32",)), True),
        (replace(APART, doubt=0.9), True),
        (replace(APART, dtype="int32", scaled=1e-9, doubt=None), False),
    ],
    ids=["a few roundings", "more than a few", "a few roundings to tf32", "a cancelling sum", "an integer"],
)
def test_numbers_may_differ_by_roundings_and_integers_may_not(found: Difference, *, is_explained: bool) -> None:
    assert found.is_explained is is_explained


def test_the_message_says_that_integers_must_be_equal() -> None:
    fail = only_failure(GpuAgreement(), compared(replace(APART, dtype="int64", doubt=None)))
    assert fail.message == "3 of 64 elements of dx differ on the NVIDIA H200, where integers must be equal"


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        (run(), NOT_BOTH),
        (compared(launches=0, skipped=((KERNEL, "memory saw Stray"),)), "memory saw Stray"),
        (compared(launches=0), "no kernel was launched"),
    ],
    ids=["one GPU", "no launch that could be compared", "no launch"],
)
def test_abstains_if_no_launch_was_compared(of: Run, reason: str) -> None:
    assert judge(GpuAgreement(), of) == [f"abstain: {reason}"]


def test_compiled_code_is_not_judged_where_no_launch_was_compared() -> None:
    skipped = replace(compared(launches=0, skipped=((KERNEL, "memory saw Stray"),)), engine="virtual,ptx")
    assert judge(CompiledCode(), skipped) == ["abstain: memory saw Stray"]
    assert judge(CompiledCode(), replace(compared(), engine="virtual,ptx")) == ["pass"]
