"""What a campaign did not check or not try is named by op."""

from harness.documents.op_checks import OpChecks, UncheckedOp, by_op, unchecked, untried
from harness.model.merging import merged
from harness.model.paired_run import SecondRun

NORM = OpChecks(op="suites/a.py:norm", device="h200", passed=3, failed=1, abstained=2, may_be_oversized=True)
ELSEWHERE = OpChecks(op="suites/a.py:norm", device="a100", abstained=2, abstain_reasons={"declined": 2})
SUM = OpChecks(op="suites/a.py:sum", device="h200", abstained=5, abstain_reasons={"no kernel was launched": 5})
UNREACHED = OpChecks(op="suites/a.py:late", device="h200")


def test_an_op_without_a_checked_case_is_named_before_devices() -> None:
    assert unchecked([NORM, ELSEWHERE, SUM, UNREACHED]) == (
        UncheckedOp(op="suites/a.py:sum", device="", reason="5 of 5 cases: no kernel was launched"),
        UncheckedOp(op="suites/a.py:late", device="", reason="no case ran"),
        UncheckedOp(op="suites/a.py:norm", device="a100", reason="2 of 2 cases: declined"),
    )


def test_an_op_that_failed_everywhere_is_checked() -> None:
    assert unchecked([OpChecks(op="a:b", device="h200", failed=3)]) == ()


def test_kinds_of_checks_that_an_op_never_got_are_named() -> None:
    tuned = OpChecks(
        op="suites/a.py:tuned",
        device="h200",
        passed=2,
        second_runs={SecondRun.SM_COUNT: 2, SecondRun.CONFIG: 0},
        builds=3,
    )
    assert untried([NORM, ELSEWHERE, SUM, tuned]) == {
        "oversized cases": ("suites/a.py:norm",),
        "runs with another config": ("suites/a.py:tuned",),
        "resources of kernels": ("suites/a.py:tuned",),
    }


def test_resources_that_no_backend_knows_are_not_untried() -> None:
    assert untried([OpChecks(op=NORM.op, device="bmg", passed=1, builds=3)]) == {}


def test_a_check_on_one_device_is_enough() -> None:
    assert untried([NORM, OpChecks(op=NORM.op, device="b200", passed=1, oversized=1, may_be_oversized=True)]) == {}


def test_sums_keep_kinds_that_never_ran() -> None:
    first = OpChecks(op="a:b", device="h200", passed=1, second_runs={SecondRun.ORDER: 0, SecondRun.SM_COUNT: 2})
    second = OpChecks(op="a:b", device="a100", passed=2, failed=1, second_runs={SecondRun.SM_COUNT: 1}, builds=4)
    assert merged([first, second]) == OpChecks(
        op="a:b", device="h200", passed=3, failed=1, second_runs={SecondRun.ORDER: 0, SecondRun.SM_COUNT: 3}, builds=4
    )
    assert [(row.device, row.cases) for row in by_op([first, second])] == [("", 4)]
